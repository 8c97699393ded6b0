#include "swap/plan/pinned_need.h"

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "swap/plan/saturating.h"
#include "swap/plan/size_group.h"

namespace penstock {
namespace {

// More than any machine has; no plan that refuses this much takes more.
constexpr std::uint64_t kMebibytesMax = std::uint64_t{1} << 30;

}  // namespace

bool holds_all(std::span<const HeldBuffers> held, PlannedPool pool) {
  std::ranges::sort(pool.classes, {}, &ClassPlan::slot_bytes);
  std::uint64_t needed_bytes = 0;
  for (const ClassPlan& entry : pool.classes) {
    needed_bytes += align_up(entry.slot_bytes, kBlockBytes) * entry.slots;
  }
  std::vector<HeldBuffers> wanted(held.begin(), held.end());
  std::ranges::sort(wanted, {}, &HeldBuffers::bytes);
  for (HeldBuffers& buffers : wanted) {
    for (ClassPlan& entry : pool.classes) {
      const std::uint64_t slot = align_up(entry.slot_bytes, kBlockBytes);
      if (slot >= buffers.bytes && slot - buffers.bytes <= slot / kSlotWasteDivisor) {
        const std::uint32_t taken = std::min(entry.slots, buffers.most);
        entry.slots -= taken;
        buffers.most -= taken;
      }
    }
    needed_bytes += multiply_saturating(buffers.bytes, buffers.most);  // buffers of their own
  }
  return needed_bytes <= pool.bytes;
}

std::optional<std::uint64_t> pinned_bytes_for(std::span<const HeldBuffers> held,
                                              const PoolOfBudget& pool_of) {
  const auto suffices = [&](std::uint64_t mebibytes) {
    std::optional<PlannedPool> pool = pool_of(mebibytes * kMiB);
    return pool && holds_all(held, std::move(*pool));
  };
  std::uint64_t enough = 1;
  std::uint64_t too_few = 0;
  while (!suffices(enough)) {
    too_few = enough;
    enough *= 2;
    if (enough > kMebibytesMax) {
      return std::nullopt;
    }
  }
  while (enough - too_few > 1) {
    const std::uint64_t middle = too_few + (enough - too_few) / 2;
    (suffices(middle) ? enough : too_few) = middle;
  }
  return enough * kMiB;
}

}  // namespace penstock
