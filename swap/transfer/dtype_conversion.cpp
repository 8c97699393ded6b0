#include "swap/transfer/dtype_conversion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "alloc/check.h"

namespace penstock {
namespace {

constexpr std::uint32_t kSignBit = 0x8000'0000;
constexpr std::uint32_t kInfinity = 0x7f80'0000;
constexpr std::uint16_t kHalfInfinity = 0x7c00;
constexpr std::uint16_t kHalfNan = 0x7e00;
constexpr std::uint16_t kBrainNan = 0x7fc0;

struct Float32 {
  using Bits = std::uint32_t;
  static float widen(Bits bits) { return std::bit_cast<float>(bits); }
  static Bits narrow(float value) { return std::bit_cast<Bits>(value); }
};

struct Brain16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static Bits narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & ~kSignBit) > kInfinity) {
      return kBrainNan;
    }
    // Half of the last place that stays, less one where that is even already.
    const std::uint32_t rounding = 0x7fff + ((bits >> 16) & 1);
    return static_cast<Bits>((bits + rounding) >> 16);
  }
};

struct Half16 {
  using Bits = std::uint16_t;

  // No number on the way is subnormal in f32: a thread that flushes these to zero, as after
  // torch.set_flush_denormal(True), gets the same result.
  static float widen(Bits bits) {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
    const std::uint32_t rest = bits & 0x7fffU;
    if (rest >= kHalfInfinity) {
      return std::bit_cast<float>(sign | rest << 13 | kInfinity);
    }
    if (rest < 0x400) {  // subnormal: so many times 2^-24
      return std::bit_cast<float>(
          sign | std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24F));
    }
    return std::bit_cast<float>(sign | ((rest << 13) + (112U << 23)));
  }

  static Bits narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<Bits>((bits & kSignBit) >> 16);
    const std::uint32_t magnitude = bits & ~kSignBit;
    if (magnitude > kInfinity) {
      return static_cast<Bits>(sign | kHalfNan);
    }
    if (magnitude >= 0x4780'0000) {  // 2^16 and more
      return static_cast<Bits>(sign | kHalfInfinity);
    }
    if (magnitude < 0x3880'0000) {
      // Below 2^-14 places are 2^-24 apart: added to a number whose own are as far, the sum is
      // rounded to them.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<Bits>(
          sign | (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F)));
    }
    const std::uint32_t rounding = 0xfff + ((magnitude >> 13) & 1);
    return static_cast<Bits>(sign | ((magnitude - (112U << 23) + rounding) >> 13));
  }
};

template <class From, class To>
void convert_all(std::span<const std::byte> source, std::span<std::byte> target) {
  const std::size_t count = source.size() / sizeof(typename From::Bits);
  for (std::size_t i = 0; i < count; ++i) {
    typename From::Bits from;
    std::memcpy(&from, source.data() + i * sizeof(from), sizeof(from));
    const typename To::Bits to = To::narrow(From::widen(from));
    std::memcpy(target.data() + i * sizeof(to), &to, sizeof(to));
  }
}

template <class From>
void convert_from(std::span<const std::byte> source, DType to, std::span<std::byte> target) {
  switch (to) {
    case DType::kBF16:
      return convert_all<From, Brain16>(source, target);
    case DType::kF16:
      return convert_all<From, Half16>(source, target);
    default:
      return convert_all<From, Float32>(source, target);
  }
}

bool is_convertible(DType type) noexcept {
  return type == DType::kBF16 || type == DType::kF16 || type == DType::kF32;
}

constexpr std::size_t kBlockElements = 1024;  // small enough for the stack and the first cache

}  // namespace

bool converts(DType from, DType to) noexcept {
  return from == to || (is_convertible(from) && is_convertible(to));
}

void convert(DType from, std::span<const std::byte> source, DType to, std::span<std::byte> target) {
  PENSTOCK_CHECK(converts(from, to), "{} to {}", dtype_name(from), dtype_name(to));
  PENSTOCK_CHECK(source.size() / dtype_bytes(from) == target.size() / dtype_bytes(to),
                 "{} bytes of {} into {} of {}", source.size(), dtype_name(from), target.size(),
                 dtype_name(to));
  if (source.empty()) {
    return;  // memory of nothing may be null
  }
  if (from == to) {
    std::memcpy(target.data(), source.data(), source.size());
    return;
  }
  switch (from) {
    case DType::kBF16:
      return convert_from<Brain16>(source, to, target);
    case DType::kF16:
      return convert_from<Half16>(source, to, target);
    default:
      return convert_from<Float32>(source, to, target);
  }
}

// Elements that grow are taken from the end, so that none is overwritten before its turn.
void convert_in_place(DType from, DType to, std::span<std::byte> memory, std::size_t elements) {
  if (from == to) {
    return;
  }
  const std::size_t old_bytes = dtype_bytes(from);
  const std::size_t new_bytes = dtype_bytes(to);
  PENSTOCK_CHECK(elements * std::max(old_bytes, new_bytes) <= memory.size(),
                 "{} elements of {} and {} in {} bytes", elements, dtype_name(from), dtype_name(to),
                 memory.size());
  std::array<std::byte, kBlockElements * sizeof(float)> block;
  for (std::size_t done = 0; done < elements;) {
    const std::size_t count = std::min(kBlockElements, elements - done);
    const std::size_t at = new_bytes > old_bytes ? elements - done - count : done;
    const auto source = std::span(block).first(count * old_bytes);
    std::ranges::copy(memory.subspan(at * old_bytes, count * old_bytes), source.begin());
    convert(from, source, to, memory.subspan(at * new_bytes, count * new_bytes));
    done += count;
  }
}

}  // namespace penstock
