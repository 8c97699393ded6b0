#pragma once

#include <cmath>
#include <cstdint>

namespace penstock {

/// Which of two products is added without being rounded before: a runtime's ops fuse the new one in
/// vectors and the old one in scalar code.
enum class Fused : std::uint8_t { kNew, kOld };

/// old*beta + fresh*rest.
template <Fused kFused>
[[gnu::always_inline]] inline float blend(float old, float beta, float fresh, float rest) {
  if constexpr (kFused == Fused::kNew) {
    return std::fma(fresh, rest, old * beta);
  } else {
    return std::fma(old, beta, fresh * rest);
  }
}

}  // namespace penstock
