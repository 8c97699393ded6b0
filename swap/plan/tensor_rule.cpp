#include "swap/plan/tensor_rule.h"

#include "swap/plan/name_pattern.h"
#include "swap/plan/tensor_name.h"

namespace penstock {

bool TensorRule::matches(std::string_view name, std::uint64_t bytes) const {
  const bool is_named =
      match.empty() || matches_pattern(match, name) || matches_pattern(match, whole_name(name));
  return is_named && (!min_bytes || bytes >= *min_bytes) && (!max_bytes || bytes <= *max_bytes);
}

}  // namespace penstock
