#pragma once

#include <string>
#include <utility>
#include <vector>

#include "alloc/result.h"
#include "io/file.h"

namespace penstock {

/// An open directory whose files may have been put there by others. Files are named without a
/// slash and reached below the directory's descriptor, so that a directory which is renamed or
/// replaced meanwhile leads nowhere else. Members may be called from any thread.
class Directory {
 public:
  virtual ~Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  /// As it was opened; what messages name.
  const std::string& path() const noexcept { return path_; }
  /// Of a file in it, for messages.
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  /// A regular file with one link that belongs to this process's user, to root or to the owner of
  /// the directory, who could replace it anyway. Errors: errno with the path. Symbolic links
  /// (ELOOP), hard links (EMLINK), other people's files (EPERM), and FIFOs, devices, sockets and
  /// directories (EINVAL) are refused; nothing of them is opened for good, emptied or waited for.
  virtual Result<File> open(const std::string& name, File::Access access, DirectMode mode) = 0;
  /// Names in it, without `.` and `..`, sorted.
  virtual Result<std::vector<std::string>> list() = 0;
  /// `from` becomes `to`, which it replaces in one step; safe from a crash after sync().
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  /// The same where there is no `to` yet. EEXIST where there is one.
  virtual Result<void> rename_new(const std::string& from, const std::string& to) = 0;
  virtual Result<void> remove(const std::string& name) = 0;
  /// What was created, renamed and removed in it survives a crash from here on.
  virtual Result<void> sync() = 0;

 protected:
  explicit Directory(std::string path) : path_(std::move(path)) {}
  static File make_file(FileSystem& system, int fd, std::string path, DirectIo direct) {
    return File(system, fd, std::move(path), std::move(direct));
  }

 private:
  std::string path_;
};

}  // namespace penstock
