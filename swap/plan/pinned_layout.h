#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "swap/plan/placement.h"
#include "swap/plan/size_group.h"

namespace penstock {

/// A tensor that lies on a drive and may get pinned memory to be read into.
struct PinnedCandidate {
  std::uint64_t bytes = 0;
  std::uint32_t group = 0;  ///< into the groups
  bool forced = false;      ///< a rule says that it gets a slot
};

struct PinnedFate {
  Place place = Place::kStream;   ///< kClass, kDedicated or kStream
  std::uint32_t class_index = 0;  ///< into PinnedLayout::classes where place is kClass
};

struct PinnedLayout {
  std::vector<PlacedClass> classes;   ///< ascending by slot_bytes
  std::vector<PinnedFate> fates;      ///< by candidate
  std::uint64_t window_tensors = 0;   ///< see Placement
  std::uint64_t pinned_bytes = 0;     ///< slots and dedicated buffers
  std::uint64_t peak_live_bytes = 0;  ///< the largest tensors that can be in them at once
};

/// Divides `budget_bytes` of pinned memory among the candidates, which are in order of use.
/// One slot for each group, as long as there is room: what rules want, then regular groups before
/// outliers, those first whose slot serves most tensors. Then one or two outliers of a size get
/// buffers of their own where they fit; the rest of the budget becomes further slots. What has got
/// nothing is streamed. Pure.
PinnedLayout lay_out_pinned(std::span<const PinnedCandidate> candidates,
                            std::span<const SizeGroup> groups, std::uint64_t budget_bytes);

}  // namespace penstock
