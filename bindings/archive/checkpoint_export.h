#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "alloc/result.h"
#include "bindings/archive/checkpoint_import.h"
#include "io/io_queue.h"
#include "swap/store/durable_store.h"

namespace penstock {

/// Whether an export to `target` writes one file; else a directory.
bool is_single_file(const std::string& target);

struct ExportOptions {
  /// Ends in `.safetensors`: one file. Else a directory: shards with an index.
  std::string target;
  /// Of one file: where it is, if `target` is a symbolic link to it. Empty: `target`.
  std::string place;
  /// bf16, f16 or f32: tensors of these types are written as this one; others as they are.
  std::optional<DType> dtype;
  std::set<std::string> left_out;                 ///< names of damaged tensors: not written
  std::optional<::mode_t> mode;                   ///< of its files; nothing: for their owner alone
  std::uint64_t max_shard_bytes = 5'000'000'000;  ///< of data, where one tensor is not larger
  /// Looked at between parts of some MiB: true ends it with ECANCELED, nothing left of its files.
  std::function<bool()> interrupted;
};

struct ExportReport {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;  ///< of tensors, as written
  std::uint64_t files = 0;  ///< of tensors, without the index
};

/// Writes all tensors of `store` as a checkpoint, each proved on the way. Needs some tens of MiB of
/// memory, whatever the model. Nothing stands under a final name before all of it is whole and
/// synced: files are written under names of their own (PartialFile) and renamed, the index
/// last. A file that was there is replaced at once; a directory that holds a checkpoint already is
/// an error. Errors: a tensor that cannot be read or is damaged; errno and path; no tensors.
Result<ExportReport> export_checkpoint(const DurableStore& store, FileSystem& system,
                                       IoQueue& queue, const ExportOptions& options,
                                       const OnProgress& on_progress = {});

}  // namespace penstock
