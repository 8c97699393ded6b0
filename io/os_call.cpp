#include "io/os_call.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace penstock {
namespace {

int flags_of(File::Access access) {
  switch (access) {
    case File::Access::kRead:
      return O_RDONLY;
    case File::Access::kReadWrite:
      return O_RDWR;
    case File::Access::kCreate:
      return O_RDWR | O_CREAT;
    case File::Access::kExclusive:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

// io_uring gives up on a file with O_NONBLOCK where it would have to wait for the drive. 0 or an
// errno.
int let_block(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ? errno : 0;
}

}  // namespace

Result<int> os_open(int directory, const std::string& name, File::Access access,
                    const std::string& path, int flags) {
  const std::string what = fmt::format("cannot open {}", path);
  if (name.find('\0') != std::string::npos) {  // the system would see less of the name
    return system_error(EINVAL, what + ", a path with a NUL in it", path);
  }
  const int all = flags_of(access) | flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const int fd =
      retry_interrupted([&] { return ::openat(directory, name.c_str(), all, kFileMode); });
  if (fd < 0) {
    return system_error(errno, what, path);
  }
  if (const int error = let_block(fd); error != 0) {
    ::close(fd);
    return system_error(error, what, path);
  }
  return fd;
}

}  // namespace penstock
