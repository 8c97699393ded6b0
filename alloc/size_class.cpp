#include "alloc/size_class.h"

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock {
namespace {

// Ascending sizes without repetitions; 0 bytes need no slot.
std::vector<SizeCount> distinct_sizes(std::span<const SizeCount> sizes) {
  std::vector<SizeCount> sorted;
  std::ranges::copy_if(sizes, std::back_inserter(sorted),
                       [](const SizeCount& size) { return size.bytes != 0; });
  std::ranges::sort(sorted, {}, &SizeCount::bytes);
  std::vector<SizeCount> distinct;
  for (const SizeCount& size : sorted) {
    if (!distinct.empty() && distinct.back().bytes == size.bytes) {
      distinct.back().tensors += size.tensors;
    } else {
      distinct.push_back(size);
    }
  }
  return distinct;
}

bool joins(const SizeClass& group, std::uint64_t slot_bytes, double max_waste) {
  const double bound = static_cast<double>(group.smallest_bytes) * (1.0 + max_waste);
  return slot_bytes == group.slot_bytes || static_cast<double>(slot_bytes) <= bound;
}

// Each class takes all it can from the smallest size left upwards. No partition within the bound
// has fewer classes: whichever class holds the smallest size cannot reach further than this one
// does.
std::vector<SizeClass> group(std::span<const SizeCount> ascending, double max_waste) {
  std::vector<SizeClass> classes;
  for (const SizeCount& size : ascending) {
    const std::uint64_t slot_bytes = align_up(size.bytes, kBlockBytes);
    if (!classes.empty() && joins(classes.back(), slot_bytes, max_waste)) {
      classes.back().slot_bytes = slot_bytes;
      classes.back().tensors += size.tensors;
    } else {
      classes.push_back({slot_bytes, size.bytes, size.tensors});
    }
  }
  return classes;
}

}  // namespace

std::vector<SizeClass> make_size_classes(std::span<const SizeCount> sizes,
                                         const SizeClassOptions& options) {
  const std::vector<SizeCount> ascending = distinct_sizes(sizes);
  const std::size_t classes_max = std::max<std::uint32_t>(options.classes_max, 1);
  std::vector<SizeClass> classes = group(ascending, options.max_waste);
  if (classes.size() <= classes_max) {
    return classes;
  }
  // The number of classes never rises with the bound, and with this one there is a single class:
  // halve the interval until the bound is known to about a billionth.
  double too_narrow = options.max_waste;
  double wide_enough =
      static_cast<double>(classes.back().slot_bytes) / static_cast<double>(ascending.front().bytes);
  for (int step = 0; step < 64; ++step) {
    const double middle = (too_narrow + wide_enough) / 2;
    (group(ascending, middle).size() <= classes_max ? wide_enough : too_narrow) = middle;
  }
  return group(ascending, wide_enough);
}

}  // namespace penstock
