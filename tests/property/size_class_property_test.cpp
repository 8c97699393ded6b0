#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/size_class.h"
#include "tests/property/step.h"

namespace penstock {
namespace {

std::vector<SizeCount> any_sizes() {
  const auto bytes =
      *rc::gen::container<std::vector<std::uint64_t>>(any_magnitude(std::uint64_t{1} << 50));
  std::vector<SizeCount> sizes;
  for (const std::uint64_t size : bytes) {
    sizes.push_back({size, *rc::gen::inRange<std::uint32_t>(0, 5)});
  }
  return sizes;
}

bool may_share(std::uint64_t smallest, std::uint64_t largest, double max_waste) {
  const std::uint64_t slot = align_up(largest, kBlockBytes);
  return align_up(smallest, kBlockBytes) == slot ||
         static_cast<double>(slot) <= static_cast<double>(smallest) * (1.0 + max_waste);
}

/// The fewest classes that any division of the sizes into neighbours can have,
/// tried out in full.
std::size_t fewest_classes(const std::vector<SizeCount>& sizes, double max_waste) {
  std::set<std::uint64_t> distinct;
  for (const SizeCount& size : sizes) {
    if (size.bytes != 0) {
      distinct.insert(size.bytes);
    }
  }
  const std::vector<std::uint64_t> sorted(distinct.begin(), distinct.end());
  std::vector<std::size_t> fewest(sorted.size() + 1, 0);
  for (std::size_t end = 1; end <= sorted.size(); ++end) {
    fewest[end] = sorted.size();
    for (std::size_t begin = 0; begin < end; ++begin) {
      if (may_share(sorted[begin], sorted[end - 1], max_waste)) {
        fewest[end] = std::min(fewest[end], fewest[begin] + 1);
      }
    }
  }
  return fewest[sorted.size()];
}

RC_GTEST_PROP(SizeClassProperty, EverySizeHasASlotOfItsOwnClassAndOfNoOther, ()) {
  const std::vector<SizeCount> sizes = any_sizes();
  const SizeClassOptions options{*rc::gen::inRange(0, 400) / 100.0,
                                 *rc::gen::inRange<std::uint32_t>(0, 70)};
  const std::vector<SizeClass> classes = make_size_classes(sizes, options);
  RC_ASSERT(classes.size() <= std::max(options.classes_max, 1U));
  std::uint64_t tensors = 0;
  for (const SizeClass& size_class : classes) {
    RC_ASSERT(is_aligned(size_class.slot_bytes, kBlockBytes));
    tensors += size_class.tensors;
  }
  for (const SizeCount& size : sizes) {
    const auto holds = [&](const SizeClass& size_class) {
      return size_class.smallest_bytes <= size.bytes && size.bytes <= size_class.slot_bytes;
    };
    RC_ASSERT(std::ranges::count_if(classes, holds) == (size.bytes == 0 ? 0 : 1));
    tensors -= size.bytes == 0 ? 0 : size.tensors;
  }
  RC_ASSERT(tensors == 0U);
}

RC_GTEST_PROP(SizeClassProperty, WastesNoMoreThanAllowedWithTheFewestClasses, ()) {
  const std::vector<SizeCount> sizes = any_sizes();
  const double max_waste = *rc::gen::inRange(0, 400) / 100.0;
  const std::vector<SizeClass> classes = make_size_classes(sizes, {max_waste, 1000});
  for (const SizeClass& size_class : classes) {
    RC_ASSERT(may_share(size_class.smallest_bytes, size_class.slot_bytes, max_waste));
  }
  RC_ASSERT(classes.size() == fewest_classes(sizes, max_waste));
}

}  // namespace
}  // namespace penstock
