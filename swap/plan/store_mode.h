#pragma once

#include <cstdint>

namespace penstock {

/// What stores of an engine are.
enum class StoreMode : std::uint8_t {
  kScratch,  ///< unlinked files: nothing outlives the engine
  kDurable,  ///< what is published is there when the store is opened again
};

}  // namespace penstock
