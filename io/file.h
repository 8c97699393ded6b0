#pragma once

#include <cstdint>
#include <string>

#include "alloc/result.h"

namespace penstock {

/// What statx(2) says about direct I/O on a file; where it says nothing, what a first open told.
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

/// An open file; closes it when destroyed. Move-only. Const members may be called from any thread.
class File {
 public:
  /// An unlinked, 0600, read-write file in `directory` (O_TMPFILE, else created and unlinked at
  /// once): nothing is left behind however the process ends. Creates `directory` and its parents
  /// where they are missing. Errors: errno with the directory as path (ENOTDIR, EACCES, EROFS,
  /// ENOSPC…).
  static Result<File> create_scratch(const std::string& directory,
                                     DirectMode mode = DirectMode::kAuto);
  enum class Access : std::uint8_t { kRead, kReadWrite, kCreate };
  /// kCreate makes the file (0600) where it is missing and never truncates it.
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

 private:
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  void learn_direct_io(DirectMode mode);

  int fd_ = -1;
  std::string path_;
  DirectIo direct_;
};

}  // namespace penstock
