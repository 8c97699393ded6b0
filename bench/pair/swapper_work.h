#pragma once

#include <string>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/workload/swap/swap_inventory.h"

namespace penstock::bench {

/// What a swap job is for DeepSpeed's own swappers, as deepspeed/swappers.py reads it: the same
/// tensors in the same order, with the same computation between them; a sub-group's steps are one.
/// Errors: work that the swappers do not know (states of another kind).
Result<std::string> swapper_work(const Job& job, const SwapInventory& inventory);

}  // namespace penstock::bench
