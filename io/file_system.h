#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "alloc/result.h"
#include "io/directory.h"
#include "io/file.h"

namespace penstock {

/// Where files come from: the machine's own (os_file_system), or a simulated drive that tears,
/// forgets and refuses on purpose. Whatever penstock keeps on drives goes through here, so that the
/// code that a user runs is the code that is simulated. Members may be called from any thread.
class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  virtual ~FileSystem() = default;

  /// As File::create_scratch.
  virtual Result<File> create_scratch(const std::string& directory, DirectMode mode) = 0;
  /// As File::open.
  virtual Result<File> open(const std::string& path, File::Access access, DirectMode mode) = 0;

  /// As `mkdir -p`, 0700. Errors: errno with the path.
  virtual Result<void> make_directories(const std::string& path) = 0;
  /// For files that others may have put there. Errors: ENOENT, ENOTDIR, EACCES…
  virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& path) = 0;
  /// What this process may still write there, at most; nothing if that is unknown.
  virtual std::optional<std::uint64_t> free_bytes(const std::string& path) = 0;

 protected:
  friend class File;

  /// For open() and create_scratch() of subclasses.
  static File make_file(FileSystem& system, int fd, std::string path, DirectIo direct) {
    return File(system, fd, std::move(path), std::move(direct));
  }

  // What a File is made of; each is one call to the system, errors as -errno. `fd` is whatever the
  // file system understands by it: engines of the machine need a real descriptor.
  virtual void close(int fd) noexcept = 0;
  /// By one thread at a time of each file: it may set the size back to what it was.
  virtual int reserve(int fd, std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual int truncate(int fd, std::uint64_t bytes) = 0;
  virtual std::int64_t size(int fd) = 0;
  /// How many names the file has.
  virtual std::int64_t names(int fd) = 0;
  virtual int sync(int fd) = 0;
  virtual int try_lock(int fd, File::Lock kind) = 0;
  virtual int unlock(int fd) = 0;
  virtual std::int64_t read(int fd, std::span<std::byte> target, std::uint64_t offset) = 0;
  virtual std::int64_t write(int fd, std::span<const std::byte> source, std::uint64_t offset) = 0;
};

/// The machine's. Lives as long as the process.
FileSystem& os_file_system();

}  // namespace penstock
