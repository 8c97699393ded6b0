#include "swap/update/random_rounding.h"

#include <bit>

#include "alloc/check.h"
#include "swap/update/kernels.h"

namespace penstock {
namespace {

/// MurmurHash3's finalizer (A. Appleby, in the public domain): each bit of the result depends on
/// all bits.
[[gnu::always_inline]] inline std::uint32_t mixed(std::uint32_t bits) noexcept {
  bits ^= bits >> 16U;
  bits *= 0x85EBCA6BU;
  bits ^= bits >> 13U;
  bits *= 0xC2B2AE35U;
  return bits ^ (bits >> 16U);
}

struct RandomRounding {
  template <std::size_t kWidth>
  [[gnu::always_inline]] static void run(std::size_t count, const float* values, std::uint16_t* out,
                                         std::uint32_t seed) noexcept {
    constexpr std::uint32_t kExponent = 0x7F800000U;
    constexpr std::uint32_t kQuiet = 0x00400000U;
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[i]);
      const bool is_finite = (bits & kExponent) != kExponent;
      const bool is_nan = (bits & ~(1U << 31U)) > kExponent;
      const std::uint32_t random = is_finite ? mixed(bits ^ seed) >> 16U : 0U;
      out[i] = static_cast<std::uint16_t>(((bits + random) | (is_nan ? kQuiet : 0U)) >> 16U);
    }
  }
};

}  // namespace

void round_randomly(std::span<const float> values, std::uint64_t step, std::span<std::byte> bf16) {
  PENSTOCK_CHECK(bf16.size() == values.size() * sizeof(std::uint16_t), "{} bytes for {} elements",
                 bf16.size(), values.size());
  using All = Kernels<RandomRounding, const float*, std::uint16_t*, std::uint32_t>;
  All::fastest()(values.size(), values.data(), reinterpret_cast<std::uint16_t*>(bf16.data()),
                 mixed(static_cast<std::uint32_t>(step)));
}

}  // namespace penstock
