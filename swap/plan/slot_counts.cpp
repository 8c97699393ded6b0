#include "swap/plan/slot_counts.h"

#include <algorithm>

#include "alloc/check.h"

namespace penstock {
namespace {

using Slots = std::vector<std::uint32_t>;

std::uint64_t bytes_of(std::span<const SlotDemand> classes, const Slots& slots) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    bytes += classes[i].slot_bytes * slots[i];
  }
  return bytes;
}

Slots at_most(std::span<const SlotDemand> classes, std::uint32_t count) {
  Slots slots;
  slots.reserve(classes.size());
  for (const SlotDemand& demand : classes) {
    slots.push_back(std::min(demand.tensors, count));
  }
  return slots;
}

// The most tensors of each class that any `window` consecutive ones have, but at least `base`.
Slots slots_of_window(std::span<const std::uint32_t> order, std::uint64_t window,
                      const Slots& base) {
  Slots most = base;
  Slots inside(base.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i >= window) {
      --inside[order[i - static_cast<std::size_t>(window)]];
    }
    const std::uint32_t count = ++inside[order[i]];
    most[order[i]] = std::max(most[order[i]], count);
  }
  return most;
}

}  // namespace

SlotCounts count_slots(std::span<const SlotDemand> classes, std::span<const std::uint32_t> order,
                       std::uint64_t budget_bytes) {
  Slots base = at_most(classes, 1);
  PENSTOCK_CHECK(bytes_of(classes, base) <= budget_bytes, "one slot of each of {} classes in {}",
                 classes.size(), budget_bytes);
  if (const Slots two = at_most(classes, 2); bytes_of(classes, two) <= budget_bytes) {
    base = two;
  }
  // A longer window never needs fewer slots of any class, so that bisection finds the longest.
  SlotCounts counts{base, 0};
  std::uint64_t too_long = order.size() + 1;
  while (too_long - counts.window_tensors > 1) {
    const std::uint64_t middle = counts.window_tensors + (too_long - counts.window_tensors) / 2;
    Slots slots = slots_of_window(order, middle, base);
    if (bytes_of(classes, slots) <= budget_bytes) {
      counts = {std::move(slots), middle};
    } else {
      too_long = middle;
    }
  }
  std::uint64_t left = budget_bytes - bytes_of(classes, counts.slots);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (counts.slots[i] < std::min<std::uint32_t>(classes[i].tensors, 2) &&
        classes[i].slot_bytes <= left) {
      ++counts.slots[i];
      left -= classes[i].slot_bytes;
    }
  }
  return counts;
}

}  // namespace penstock
