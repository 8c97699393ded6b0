#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// A class that wants slots; classes are given in the order in which they are served.
struct SlotDemand {
  std::uint64_t slot_bytes = 0;
  std::uint32_t tensors = 0;  ///< never more slots than these
};

struct SlotCounts {
  std::vector<std::uint32_t> slots;  ///< by class, at least 1 each
  /// So many tensors that follow one another in use, wherever one begins, have a slot each.
  std::uint64_t window_tensors = 0;
};

/// Divides `budget_bytes` among the classes. Each gets one slot, which must fit (CHECKed), and two
/// where all can have two. What is left goes along the order of use: the longest window such that,
/// wherever it lies, its tensors have a slot each; then second slots in the order of the classes.
/// `order` is the class of each tensor in order of use. Pure; time is tensors x log(tensors).
SlotCounts count_slots(std::span<const SlotDemand> classes, std::span<const std::uint32_t> order,
                       std::uint64_t budget_bytes);

}  // namespace penstock
