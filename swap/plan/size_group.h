#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "alloc/size_class.h"

namespace penstock {

/// Why a size does not belong to the regular classes.
enum class OutlierReason : std::uint8_t {
  kNone,              ///< regular
  kAboveLimit,        ///< larger than the limit of regular tensors
  kAboveSizeClasses,  ///< larger than every class that the user lists
  kLone,  ///< one or two tensors, more than four times as large as the next smaller class
  kTwoSlotsTooMany,  ///< two slots of it do not fit into max_pinned_bytes
};

/// Tensors of nearly one size. Every size of a placement belongs to exactly one group.
struct SizeGroup {
  std::uint64_t slot_bytes = 0;  ///< multiple of 4 KiB
  std::uint64_t smallest_bytes = 0;
  std::uint64_t largest_bytes = 0;
  std::uint32_t tensors = 0;
  OutlierReason outlier = OutlierReason::kNone;
};

struct SizeGroupLimits {
  std::uint64_t regular_bytes_max = 0;        ///< 0: no limit but the others
  std::uint64_t max_pinned_bytes = 0;         ///< 0: not known yet, nothing is too large for it
  std::span<const std::uint64_t> slot_bytes;  ///< the user's classes, ascending; empty: near-exact
};

/// At most this many tensors of a size are exceptions (an embedding and a head); more are a rule.
inline constexpr std::uint32_t kLoneTensorsMax = 2;
/// A slot is given to a tensor only where it wastes at most this part of the slot (BufferPool).
inline constexpr std::uint64_t kSlotWasteDivisor = 8;

/// How many of each size there are, ascending, each size once.
std::vector<SizeCount> count_sizes(std::vector<std::uint64_t> sizes);

/// Groups sizes (ascending, each once) within 2 % of each other or by the user's classes, and says
/// which groups are outliers. Result ascending by size. Pure.
std::vector<SizeGroup> make_size_groups(std::span<const SizeCount> sizes,
                                        const SizeGroupLimits& limits);

/// The index of the group that `bytes` belongs to; `bytes` is one of the sizes that were grouped.
std::size_t group_of(std::span<const SizeGroup> groups, std::uint64_t bytes);

}  // namespace penstock
