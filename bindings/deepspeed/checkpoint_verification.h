#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/checkpoint_summary.h"
#include "io/io_queue.h"

namespace penstock {

/// A record of a checkpoint's file, or a whole file, that is not what was written.
struct DamagedPart {
  std::string file;  ///< as CheckpointFile::name
  std::string path;
  std::string record{};  ///< empty: the file as a whole
  std::string place{};  ///< `optimizer_state_dict.fp32_flat_groups[3]`; empty where it is not known
  std::vector<std::string> tensors{};  ///< whose contents it has; empty likewise
  std::string reason{};
};

struct CheckpointVerification {
  std::uint64_t files = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> without_checksums;  ///< files of which only the reading is proved
  std::vector<DamagedPart> damaged;
  /// Files that the checkpoint, or an index of weights in it, names and that are not there.
  std::vector<std::string> missing;

  bool is_good() const noexcept { return damaged.empty() && missing.empty(); }
};

/// Reads every byte of every record of every file, through 16 MiB of memory, and compares CRC-32s.
/// `on_progress` (may be empty) is called with bytes read and all bytes. Errors: no memory.
Result<CheckpointVerification> verify_checkpoint(
    const CheckpointSummary& summary, IoQueue& queue,
    const std::function<void(std::uint64_t, std::uint64_t)>& on_progress);

}  // namespace penstock
