#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "alloc/result.h"

namespace penstock {

/// What statx(2) says about direct I/O on a file; where it says nothing, what a first open showed.
struct DirectIo {
  bool supported = false;
  std::uint32_t memory_alignment = 1;  ///< bytes; 1 where I/O is buffered
  std::uint32_t offset_alignment = 1;  ///< bytes, for offsets and lengths alike
  std::string reason;                  ///< why it is not supported, empty where it is
};

enum class DirectMode : std::uint8_t {
  kAuto,      ///< direct where the file system can, else buffered with the reason kept
  kBuffered,  ///< never direct
};

class Directory;
class FileSystem;

/// An open file; closes it when destroyed. Move-only. Const members may be called from any thread.
class File {
 public:
  /// An unlinked, 0600, read-write file in `directory` (O_TMPFILE, else created and unlinked at
  /// once): nothing is left behind however the process ends. Creates `directory` and its parents
  /// where they are missing. Errors: errno with the directory as path (ENOTDIR, EACCES, EROFS,
  /// ENOSPC…). Of the machine's file system, as open() is: others are asked for by FileSystem.
  static Result<File> create_scratch(const std::string& directory,
                                     DirectMode mode = DirectMode::kAuto);
  enum class Access : std::uint8_t {
    kRead,
    kReadWrite,
    kCreate,     ///< for reading and writing; made (0600) where it is missing, never truncated
    kExclusive,  ///< the same, but EEXIST where it is there already
  };
  /// Does not wait, also where the path is a FIFO. Follows symbolic links; Directory::open() does
  /// not. Errors: errno with the path (EINVAL: a path with a NUL in it).
  static Result<File> open(const std::string& path, Access access,
                           DirectMode mode = DirectMode::kAuto);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  int fd() const noexcept { return fd_; }
  /// The file, or for a scratch file its directory: what a user can go and look at.
  const std::string& path() const noexcept { return path_; }
  const DirectIo& direct() const noexcept { return direct_; }

  /// Makes room for [offset, offset + bytes) and moves the end of the file there, so that a later
  /// write cannot find the disk full. Where the file system cannot reserve, only the end is moved.
  /// Errors: ENOSPC, EDQUOT, EFBIG… with the path.
  Result<void> reserve(std::uint64_t offset, std::uint64_t bytes) const;
  Result<std::uint64_t> size_bytes() const;
  /// False once it was removed, or another file has its name; what is written then is gone when the
  /// file is closed. Some file systems (FUSE) count no names: there it is false from the beginning.
  bool has_name() const;
  /// Cuts the file off, or lets it grow by zeros.
  Result<void> truncate(std::uint64_t bytes) const;
  /// What was written so far, and the size, survives a crash from here on (fdatasync).
  Result<void> sync() const;
  enum class Lock : std::uint8_t {
    kShared,     ///< beside other shared ones
    kExclusive,  ///< alone
  };
  /// True if this File holds the lock now, until unlock() or until it is closed, which requests
  /// that are still under way put off; false if another process is in the way (or this one, by
  /// another File). A lock that it has already is exchanged for the other kind. A child made by
  /// fork() has neither the lock nor the file.
  Result<bool> try_lock(Lock kind = Lock::kExclusive) const;
  Result<void> unlock() const;

  /// Small transfers on the caller's thread, for files opened buffered; all of it or an error.
  /// Errors: errno and path (ENODATA: the file ends early).
  Result<void> read_at(std::uint64_t offset, std::span<std::byte> target) const;
  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> source) const;

 private:
  friend class Directory;
  friend class FileSystem;
  File(FileSystem& system, int fd, std::string path, DirectIo direct)
      : system_(&system), fd_(fd), path_(std::move(path)), direct_(std::move(direct)) {}
  Error cannot(int error, const char* verb) const;

  FileSystem* system_ = nullptr;
  int fd_ = -1;
  std::string path_;
  DirectIo direct_;
  mutable std::mutex reserving_;  // the file's own: a forked child's files wait for no thread
};

}  // namespace penstock
