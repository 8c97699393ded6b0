#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "alloc/result.h"
#include "bench/job/job.h"

namespace penstock::bench {

/// What there is under a path before a job begins.
struct FileFacts {
  bool exists = false;
  bool device = false;  ///< a block device: never made, grown or removed
  std::uint64_t bytes = 0;
};
/// Errors: errno and path, but for ENOENT.
Result<FileFacts> look_at(const std::string& path);

/// Writes contents up to `end` from the first place on where the file at `path` has none, and syncs
/// them: random bytes, or with `verify=` those that a write by the same job would leave. `file` is
/// the number of the file within its thread. Ends early where `stop` says so.
Result<void> write_missing_contents(const Job& job, const std::string& path, std::uint32_t file,
                                    std::uint64_t end, const std::atomic<bool>& stop);

}  // namespace penstock::bench
