#include "bindings/deepspeed/sub_group.h"

namespace penstock {

std::vector<SubGroup> make_sub_groups(std::span<const std::uint64_t> partitions,
                                      std::uint64_t sub_group_size) {
  std::vector<SubGroup> groups;
  SubGroup open;
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    open.end = i + 1;
    open.elements += partitions[i];
    if (open.elements >= sub_group_size || open.end == partitions.size()) {
      groups.push_back(open);
      open = {open.end, open.end, 0};
    }
  }
  return groups;
}

}  // namespace penstock
