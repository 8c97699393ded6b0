#include "swap/plan/size_group.h"

#include <algorithm>
#include <limits>

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {
namespace {

// So many classes that the waste bound is never widened: 2 % steps from 1 MiB to 2^63 are 1,500.
constexpr std::uint32_t kClassesMax = 4096;
constexpr double kWasteMax = 0.02;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

void append_near_exact(std::span<const SizeCount> sizes, OutlierReason outlier,
                       std::vector<SizeGroup>& groups) {
  const std::vector<SizeClass> classes = make_size_classes(sizes, {kWasteMax, kClassesMax});
  std::size_t next = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    SizeGroup group{classes[i].slot_bytes, classes[i].smallest_bytes, 0, classes[i].tensors,
                    outlier};
    const std::uint64_t end = i + 1 < classes.size() ? classes[i + 1].smallest_bytes : kNoLimit;
    while (next < sizes.size() && sizes[next].bytes < end) {
      group.largest_bytes = sizes[next++].bytes;
    }
    groups.push_back(group);
  }
}

// Sizes that the user's classes hold without wasting too much go there, the others to `rest`.
void append_listed(std::span<const SizeCount> sizes, std::span<const std::uint64_t> slots,
                   std::vector<SizeGroup>& groups, std::vector<SizeCount>& rest) {
  for (const SizeCount& size : sizes) {
    const auto slot = std::lower_bound(slots.begin(), slots.end(), size.bytes);
    const std::uint64_t slot_bytes = slot == slots.end() ? 0 : align_up(*slot, kBlockBytes);
    if (slot == slots.end() || slot_bytes - size.bytes > slot_bytes / kSlotWasteDivisor) {
      rest.push_back(size);
    } else if (!groups.empty() && groups.back().slot_bytes == slot_bytes) {
      groups.back().largest_bytes = size.bytes;
      groups.back().tensors += size.tensors;
    } else {
      groups.push_back({slot_bytes, size.bytes, size.bytes, size.tensors, OutlierReason::kNone});
    }
  }
}

void mark_lone(std::vector<SizeGroup>& groups) {
  for (std::size_t i = groups.size(); i-- > 1;) {
    const bool is_lone =
        groups[i].tensors <= kLoneTensorsMax && groups[i].slot_bytes / 4 > groups[i - 1].slot_bytes;
    if (groups[i].outlier == OutlierReason::kNone && is_lone) {
      groups[i].outlier = OutlierReason::kLone;
    } else if (groups[i].outlier == OutlierReason::kNone) {
      return;  // the largest regular class; what is below it is regular too
    }
  }
}

}  // namespace

std::vector<SizeCount> count_sizes(std::vector<std::uint64_t> sizes) {
  std::sort(sizes.begin(), sizes.end());
  std::vector<SizeCount> counts;
  for (const std::uint64_t bytes : sizes) {
    if (counts.empty() || counts.back().bytes != bytes) {
      counts.push_back({bytes, 0});
    }
    ++counts.back().tensors;
  }
  return counts;
}

std::vector<SizeGroup> make_size_groups(std::span<const SizeCount> sizes,
                                        const SizeGroupLimits& limits) {
  const std::uint64_t ceiling = limits.regular_bytes_max == 0 ? kNoLimit : limits.regular_bytes_max;
  const auto above =
      std::partition_point(sizes.begin(), sizes.end(),
                           [ceiling](const SizeCount& size) { return size.bytes <= ceiling; });
  const std::span<const SizeCount> below(sizes.begin(), above);

  std::vector<SizeGroup> groups;
  if (limits.slot_bytes.empty()) {
    append_near_exact(below, OutlierReason::kNone, groups);
  } else {
    std::vector<SizeCount> rest;
    append_listed(below, limits.slot_bytes, groups, rest);
    const auto outside = std::partition_point(
        rest.begin(), rest.end(),
        [&limits](const SizeCount& size) { return size.bytes <= limits.slot_bytes.back(); });
    append_near_exact({rest.begin(), outside}, OutlierReason::kNone, groups);
    append_near_exact({outside, rest.end()}, OutlierReason::kAboveSizeClasses, groups);
  }
  append_near_exact({above, sizes.end()}, OutlierReason::kAboveLimit, groups);
  std::sort(groups.begin(), groups.end(), [](const SizeGroup& a, const SizeGroup& b) {
    return a.largest_bytes < b.largest_bytes;
  });
  mark_lone(groups);
  for (SizeGroup& group : groups) {
    if (group.outlier == OutlierReason::kNone && limits.max_pinned_bytes != 0 &&
        group.slot_bytes > limits.max_pinned_bytes / 2) {
      group.outlier = OutlierReason::kTwoSlotsTooMany;
    }
  }
  return groups;
}

std::size_t group_of(std::span<const SizeGroup> groups, std::uint64_t bytes) {
  const auto found =
      std::partition_point(groups.begin(), groups.end(),
                           [bytes](const SizeGroup& group) { return group.largest_bytes < bytes; });
  PENSTOCK_CHECK(found != groups.end() && found->smallest_bytes <= bytes,
                 "{} bytes belong to none of {} groups", bytes, groups.size());
  return static_cast<std::size_t>(found - groups.begin());
}

}  // namespace penstock
