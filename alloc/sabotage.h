#pragma once

#include <cstdint>

namespace penstock {

/// A check that a test build leaves out, to see whether the simulation notices.
enum class Sabotage : std::uint8_t {
  kNone,
  kResultCheck,     ///< requests that the kernel refused count as done
  kGenerationBump,  ///< a new content has its predecessor's number
  kChecksum,        ///< what was read is not compared with what was written
  kSync,            ///< nothing is made to survive a power cut
};

#ifdef PENSTOCK_SABOTAGE
inline Sabotage sabotage = Sabotage::kNone;
inline bool sabotaged(Sabotage what) {
  return sabotage == what;
}
#else
/// In every build but that of the test: nothing is left out, and the compiler knows it.
constexpr bool sabotaged(Sabotage /*what*/) {
  return false;
}
#endif

}  // namespace penstock
