#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <utility>

namespace penstock {
namespace {

constexpr ::mode_t kFileMode = 0600;
constexpr ::mode_t kDirectoryMode = 0700;
// What to assume of a file that takes O_DIRECT on a kernel that does not tell its alignment (before
// 6.1, and file systems that do not answer): no drive wants more.
constexpr std::uint32_t kUnknownAlignment = 4096;

template <class Call>
int retry_interrupted(Call call) {
  int result = -1;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

int make_one_directory(const std::string& path) {
  if (::mkdir(path.c_str(), kDirectoryMode) == 0) {
    return 0;
  }
  const int error = errno;
  // Whatever mkdir objects to, EROFS and EACCES included, is no matter where there is a directory.
  struct ::stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
  }
  return error;
}

// As `mkdir -p`: 0, or the errno of the first directory that cannot be made.
int make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (const int error = make_one_directory(path.substr(0, slash)); error != 0) {
      return error;
    }
  }
  return make_one_directory(path);
}

// File systems without O_TMPFILE say EOPNOTSUPP; kernels that never heard of it see O_DIRECTORY and
// O_RDWR, hence EISDIR; stacked ones (overlays of old kernels) have been seen to say ENOENT.
bool lacks_tmpfile(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == ENOENT;
}

// A file descriptor or -errno.
int open_unlinked(const std::string& directory) {
  const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
  const int fd = retry_interrupted([&] { return ::open(directory.c_str(), flags, kFileMode); });
  if (fd >= 0) {
    return fd;
  }
  if (!lacks_tmpfile(errno)) {
    return -errno;
  }
  std::string name = directory + "/penstock-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) {
    return -errno;
  }
  if (::unlink(name.c_str()) != 0) {
    const int error = errno;
    ::close(named);
    return -error;
  }
  return named;
}

struct Alignment {
  bool known = false;
  std::uint32_t memory = 0;  // 0: no direct I/O on this file
  std::uint32_t offset = 0;
};

Alignment ask_alignment([[maybe_unused]] int fd) {
  Alignment alignment;
#ifdef STATX_DIOALIGN  // the C library brings the kernel's own struct along with the name
  struct ::statx info{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    alignment = {true, info.stx_dio_mem_align, info.stx_dio_offset_align};
  }
#endif
  return alignment;
}

}  // namespace

Result<File> File::create_scratch(const std::string& directory, DirectMode mode) {
  if (const int error = make_directories(directory); error != 0) {
    return system_error(error, fmt::format("cannot create the directory {}", directory), directory);
  }
  const int fd = open_unlinked(directory);
  if (fd < 0) {
    return system_error(-fd, fmt::format("cannot create a scratch file in {}", directory),
                        directory);
  }
  File file(fd, directory);
  file.learn_direct_io(mode);
  return file;
}

Result<File> File::open(const std::string& path, Access access, DirectMode mode) {
  int flags = O_CLOEXEC | (access == Access::kRead ? O_RDONLY : O_RDWR);
  if (access == Access::kCreate) {
    flags |= O_CREAT;
  }
  const int fd = retry_interrupted([&] { return ::open(path.c_str(), flags, kFileMode); });
  if (fd < 0) {
    return system_error(errno, fmt::format("cannot open {}", path), path);
  }
  File file(fd, path);
  file.learn_direct_io(mode);
  return file;
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      direct_(std::move(other.direct_)) {}

File& File::operator=(File&& other) noexcept {
  File taken(std::move(other));
  std::swap(fd_, taken.fd_);
  std::swap(path_, taken.path_);
  std::swap(direct_, taken.direct_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

// O_DIRECT is switched on afterwards, by fcntl: one way for files opened, created and unlinked, and
// a refusal leaves a file that is open all the same.
void File::learn_direct_io(DirectMode mode) {
  if (mode == DirectMode::kBuffered) {
    direct_.reason = "buffered I/O was asked for";
    return;
  }
  Alignment alignment = ask_alignment(fd_);
  if (alignment.known && (alignment.memory == 0 || alignment.offset == 0)) {
    direct_.reason = fmt::format("the file system has no direct I/O for files in {}", path_);
    return;
  }
  if (!alignment.known) {
    alignment = {false, kUnknownAlignment, kUnknownAlignment};
  }
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) {
    direct_.reason = system_error(errno, fmt::format("O_DIRECT refused for {}", path_)).message;
    return;
  }
  direct_ = {true, alignment.memory, alignment.offset, {}};
}

Result<void> File::reserve(std::uint64_t offset, std::uint64_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  const auto cannot = [&](int error) {
    return system_error(
        error, fmt::format("cannot reserve {} bytes at {} in {}", bytes, offset, path_), path_);
  };
  constexpr auto kOffsetMax = static_cast<std::uint64_t>(std::numeric_limits<::off_t>::max());
  if (bytes > kOffsetMax || offset > kOffsetMax - bytes) {
    return cannot(EFBIG);
  }
  const auto from = static_cast<::off_t>(offset);
  const auto length = static_cast<::off_t>(bytes);
  if (retry_interrupted([&] { return ::fallocate(fd_, 0, from, length); }) == 0) {
    return {};
  }
  if (errno != EOPNOTSUPP) {
    return cannot(errno);
  }
  // Between asking for the size and setting it another thread may have grown the file, which we
  // would cut off: one at a time, for all files, since this is rare and short.
  static std::mutex growing;
  const std::lock_guard lock(growing);
  const Result<std::uint64_t> size = size_bytes();
  if (!size) {
    return size.error();
  }
  if (*size < offset + bytes &&
      retry_interrupted([&] { return ::ftruncate(fd_, from + length); }) != 0) {
    return cannot(errno);
  }
  return {};
}

Result<std::uint64_t> File::size_bytes() const {
  struct ::stat info{};
  if (::fstat(fd_, &info) != 0) {
    return system_error(errno, fmt::format("cannot ask for the size of {}", path_), path_);
  }
  return static_cast<std::uint64_t>(info.st_size);
}

}  // namespace penstock
