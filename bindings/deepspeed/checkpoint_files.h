#pragma once

#include <cstdint>

#include "alloc/result.h"
#include "bindings/deepspeed/checkpoint_summary.h"

namespace penstock {

/// Lists the files of the checkpoint at `summary.place`: files, leftovers, offloaded files. Errors:
/// errno with the path.
Result<void> list_files(CheckpointSummary& summary);

/// Adds what a model file speaks of: experts, layers of a pipeline.
void promise_files(const ModelShard& model, const ShardName& shard, Promise& promise);

/// Finds what is missing among them, once stage and numbers of ranks are known.
void find_missing(CheckpointSummary& summary);

}  // namespace penstock
