#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/workload/request_source.h"
#include "io/file.h"

namespace penstock::bench {

/// The files of one thread of a job, laid out as fio does: NAME.THREAD.FILE in `directory`, or
/// those that `filename` names; room reserved where writes will go, contents written where reads
/// will go and there are none (a file that is missing, too short, or has holes).
class FileSet {
 public:
  /// `stop`: laying out ends soon, and the set is not complete. Errors: errno and path (a missing
  /// directory, a full disk, a file system without direct I/O); Fault::kInvalidArgument for a job
  /// whose files have no size.
  static Result<FileSet> open(const Job& job, std::uint32_t thread, const std::atomic<bool>& stop);

  /// Files and regions have the same order; requests name their index.
  const std::vector<File>& files() const noexcept { return files_; }
  std::span<const FileRegion> regions() const noexcept { return regions_; }

  /// fsync of each.
  Result<void> sync() const;
  static Result<void> sync(const File& file);
  /// Asks the kernel to forget what it keeps of them in memory.
  void drop_cache() const;
  /// Removes their names, not those of devices.
  Result<void> unlink() const;

 private:
  FileSet() = default;
  static Result<FileSet> open_nowhere(const Job& job);
  Result<void> add(const Job& job, const std::string& path, const std::atomic<bool>& stop);

  std::vector<File> files_;
  std::vector<FileRegion> regions_;
  bool nowhere_ = false;  // the null engine's
};

/// Where fio puts or finds the files of a thread.
std::vector<std::string> file_paths(const Job& job, std::uint32_t thread);

}  // namespace penstock::bench
