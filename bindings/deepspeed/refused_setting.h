#pragma once

#include <string_view>

namespace penstock {

/// A setting of a DeepSpeed configuration that training refuses where it swaps.
struct RefusedSetting {
  std::string_view key;           ///< dotted
  std::string_view sentence;      ///< why not, and what to do instead
  bool needs_parameters = false;  ///< only where parameters are on NVMe
};

}  // namespace penstock
