#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "io/file.h"

namespace penstock::bench {

/// Where fio puts or finds the file of a thread of a job.
std::string file_path(const Job& job, std::uint32_t thread);

/// Bytes of the file of a thread as `size=` says, a share of it in whole blocks. Errors: errno and
/// path; Fault::kInvalidArgument where neither the job nor a file says them.
Result<std::uint64_t> file_bytes(const Job& job, std::uint32_t thread);

/// Removes what a job says by `unlink`; no device. Nothing there is well.
Result<void> remove_file(const std::string& path);

struct RawFile {
  File file;
  std::uint64_t bytes;
};

/// The file of one thread of a job, laid out as fio does: room reserved where writes will go,
/// contents written where reads will go and there are none (a file that is missing, too short, or
/// has holes). The kernel is asked to forget what it keeps of it in memory.
/// `stop`: laying out ends soon, and the file ends where its contents do. Errors: errno and path (a
/// missing directory, a full disk, a file system without direct I/O).
Result<RawFile> open_raw_file(const Job& job, std::uint32_t thread, const std::atomic<bool>& stop);

}  // namespace penstock::bench
