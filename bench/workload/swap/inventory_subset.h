#pragma once

#include <cstdint>

#include "swap/plan/inventory.h"

namespace penstock::bench {

/// About `bytes` of an inventory, with the same distribution of sizes: of the tensors of each size
/// every k-th, evenly over the model, in their order. Larger sizes choose first and what they round
/// off is spread over the smaller ones, so that an embedding which is there whole or not at all
/// leaves the sum right within half a tensor of a size that many have. Deterministic. The whole
/// inventory where it has no more bytes than that; at least one tensor.
Inventory inventory_subset(const Inventory& inventory, std::uint64_t bytes);

}  // namespace penstock::bench
