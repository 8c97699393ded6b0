#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

#include "alloc/bytes.h"
#include "io/direct_io_probe.h"
#include "io/file_system.h"
#include "io/os_call.h"
#include "io/os_directory.h"
#include "io/own_descriptors.h"

namespace penstock {
namespace {

constexpr ::mode_t kDirectoryMode = 0700;

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
  return error == EEXIST ? errno : error;  // a link that leads nowhere: that is what is wrong
}

// As `mkdir -p`: 0, or the errno of the first directory that cannot be made.
int make_missing_directories(const std::string& path) {
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

// Beyond RLIMIT_FSIZE the kernel does not only refuse: its SIGXFSZ ends a process that is not
// prepared for it, and preparing is the program's affair that we live in.
bool exceeds_file_size_limit(std::uint64_t end) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         end > limit.rlim_cur;
}

// Fills a file from its end on to another, in whole blocks, as direct I/O wants them. 0 or -errno.
int write_zeros(int fd, std::uint64_t from, std::uint64_t to) {
  alignas(kBlockBytes) static const std::array<std::byte, std::size_t{64} << 10U> zeros{};
  for (std::uint64_t at = align_up(from, kBlockBytes); at < to;) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(align_up(to - at, kBlockBytes), zeros.size());
    const ssize_t written = ::pwrite(fd, zeros.data(), bytes, static_cast<::off_t>(at));
    if (written <= 0 && errno != EINTR) {
      return written == 0 ? -EIO : -errno;
    }
    at += written > 0 ? static_cast<std::uint64_t>(written) : 0;
  }
  return result_of(retry_interrupted([&] { return ::ftruncate(fd, static_cast<::off_t>(to)); }));
}

class OsFileSystem final : public FileSystem {
 public:
  Result<File> create_scratch(const std::string& directory, DirectMode mode) override {
    PENSTOCK_TRY(make_directories(directory));
    const int fd = open_unlinked(directory);
    if (fd < 0) {
      return system_error(-fd, fmt::format("cannot create a scratch file in {}", directory),
                          directory);
    }
    File file = make_file(*this, fd, directory, probe_direct_io(fd, directory, mode));
    OwnDescriptors::of_process().add(fd);
    return file;
  }

  Result<File> open(const std::string& path, File::Access access, DirectMode mode) override {
    Result<int> fd = os_open(AT_FDCWD, path, access, path);
    if (fd.has_error()) {
      return std::move(fd).error();
    }
    return make_file(*this, *fd, path, probe_direct_io(*fd, path, mode));
  }

  Result<void> make_directories(const std::string& path) override {
    const bool cut = path.find('\0') != std::string::npos;  // the system would see less of it
    if (const int error = cut ? EINVAL : make_missing_directories(path); error != 0) {
      return system_error(error, fmt::format("cannot create the directory {}", path), path);
    }
    return {};
  }

  Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override {
    return open_os_directory(*this, path);
  }

  std::optional<std::uint64_t> free_bytes(const std::string& path) override {
    struct ::statvfs facts{};
    if (::statvfs(path.c_str(), &facts) != 0 || facts.f_blocks == 0) {
      return std::nullopt;  // some FUSE file systems say 0 of everything
    }
    const std::uint64_t blocks = ::geteuid() == 0 ? facts.f_bfree : facts.f_bavail;
    return blocks * facts.f_frsize;
  }

 protected:
  void close(int fd) noexcept override {
    OwnDescriptors::of_process().close(fd, [fd] { ::close(fd); });
  }

  int reserve(int fd, std::uint64_t offset, std::uint64_t bytes) override {
    if (exceeds_file_size_limit(offset + bytes)) {
      return -EFBIG;
    }
    const auto from = static_cast<::off_t>(offset);
    const auto length = static_cast<::off_t>(bytes);
    // Some FUSE file systems cannot report the size of a file without a name.
    const std::int64_t before = size(fd);
    const int reserved =
        result_of(retry_interrupted([&] { return ::fallocate(fd, 0, from, length); }));
    const bool lacks_call = reserved == -ENOSYS || reserved == -EPERM;
    if (reserved < 0 && reserved != -EOPNOTSUPP && !lacks_call && before >= 0 && from >= before) {
      // ext4 keeps the blocks that it found before the disk was full, beyond the end of the file,
      // where no other file can use them.
      (void)truncate(fd, static_cast<std::uint64_t>(before));
    }
    if (reserved != -EOPNOTSUPP && !lacks_call) {
      return reserved;
    }
    const std::int64_t grown = size(fd);
    if (grown < 0 || grown >= from + length) {
      return grown < 0 ? static_cast<int>(grown) : 0;
    }
    if (lacks_call) {  // a filter's refusal: the file system may promise space all the same
      const int written = write_zeros(fd, static_cast<std::uint64_t>(grown), offset + bytes);
      if (written < 0) {
        (void)truncate(fd, static_cast<std::uint64_t>(grown));
      }
      return written;
    }
    return truncate(fd, offset + bytes);
  }

  int truncate(int fd, std::uint64_t bytes) override {
    return result_of(
        retry_interrupted([&] { return ::ftruncate(fd, static_cast<::off_t>(bytes)); }));
  }

  std::int64_t size(int fd) override {
    struct ::stat info{};
    return ::fstat(fd, &info) == 0 ? info.st_size : -errno;
  }

  std::int64_t names(int fd) override {
    struct ::stat info{};
    return ::fstat(fd, &info) == 0 ? static_cast<std::int64_t>(info.st_nlink) : -errno;
  }

  int sync(int fd) override {
    return result_of(retry_interrupted([fd] { return ::fdatasync(fd); }));
  }

  int try_lock(int fd, File::Lock kind) override {
    const int operation = kind == File::Lock::kShared ? LOCK_SH : LOCK_EX;
    OwnDescriptors::of_process().add(fd);
    return result_of(::flock(fd, operation | LOCK_NB));
  }
  int unlock(int fd) override {
    const int result = result_of(::flock(fd, LOCK_UN));
    if (result == 0) {
      OwnDescriptors::of_process().remove(fd);
    }
    return result;
  }

  std::int64_t read(int fd, std::span<std::byte> target, std::uint64_t offset) override {
    const ssize_t moved = ::pread(fd, target.data(), target.size(), static_cast<::off_t>(offset));
    return moved < 0 ? -errno : moved;
  }

  std::int64_t write(int fd, std::span<const std::byte> source, std::uint64_t offset) override {
    const ssize_t moved = ::pwrite(fd, source.data(), source.size(), static_cast<::off_t>(offset));
    return moved < 0 ? -errno : moved;
  }
};

}  // namespace

FileSystem& os_file_system() {
  static OsFileSystem system;
  return system;
}

}  // namespace penstock
