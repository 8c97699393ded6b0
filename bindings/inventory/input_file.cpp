#include "bindings/inventory/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace penstock {
namespace {

Error not_usable(const std::string& path, std::string message) {
  return fault(Fault::kInvalidArgument, std::move(message), path);
}

}  // namespace

InputFile::InputFile(int fd, std::string path, std::uint64_t size_bytes)
    : fd_(fd), path_(std::move(path)), size_bytes_(size_bytes) {}

InputFile::InputFile(InputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      size_bytes_(other.size_bytes_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Result<InputFile> InputFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) {  // the system would see less of it
    return system_error(EINVAL, fmt::format("cannot open {}, a path with a NUL in it", path), path);
  }
  // Non-blocking, so that a pipe without a writer is an error and not a wait for ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return system_error(errno, fmt::format("cannot open {}", path), path);
  }
  InputFile file(fd, path, 0);
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) {
    return system_error(errno, fmt::format("cannot look at {}", path), path);
  }
  if (!S_ISREG(facts.st_mode)) {
    return not_usable(path, fmt::format("{} is not a regular file", path));
  }
  file.size_bytes_ = static_cast<std::uint64_t>(facts.st_size);
  return file;
}

Result<std::string> InputFile::read(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > size_bytes_ || bytes > size_bytes_ - offset) {
    return not_usable(path_, fmt::format("{} ends at byte {}, before the {} bytes expected at {}",
                                         path_, size_bytes_, bytes, offset));
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        ::pread(fd_, text.data() + done, text.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return system_error(errno, fmt::format("cannot read {} at byte {}", path_, offset + done),
                          path_);
    }
    if (got == 0) {
      return not_usable(path_, fmt::format("{} became shorter while it was read", path_));
    }
    done += static_cast<std::size_t>(got);
  }
  return text;
}

Result<std::string> read_text_file(const std::string& path, std::uint64_t bytes_max) {
  Result<InputFile> file = InputFile::open(path);
  PENSTOCK_TRY(file);
  if (file->size_bytes() > bytes_max) {
    return not_usable(path, fmt::format("{} has {} bytes; a file of this kind has at most {}", path,
                                        file->size_bytes(), bytes_max));
  }
  return file->read(0, file->size_bytes());
}

}  // namespace penstock
