#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// Neighbouring parameters that DeepSpeed's optimizer steps as one: the unit in which it keeps
/// master weights and moments.
struct SubGroup {
  std::size_t first = 0;  ///< parameters [first, end)
  std::size_t end = 0;
  std::uint64_t elements = 0;  ///< of this rank's partitions
};

/// Closes a sub-group as soon as it has `sub_group_size` elements or more, as DeepSpeed does: all
/// but the last of a model may be larger than that, none is smaller. `partitions` are elements of
/// this rank by parameter, in the order of the model.
std::vector<SubGroup> make_sub_groups(std::span<const std::uint64_t> partitions,
                                      std::uint64_t sub_group_size);

}  // namespace penstock
