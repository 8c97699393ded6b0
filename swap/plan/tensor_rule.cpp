#include "swap/plan/tensor_rule.h"

#include "swap/plan/name_pattern.h"

namespace penstock {

bool TensorRule::matches(std::string_view name, std::uint64_t bytes) const {
  return (match.empty() || matches_pattern(match, name)) && (!min_bytes || bytes >= *min_bytes) &&
         (!max_bytes || bytes <= *max_bytes);
}

}  // namespace penstock
