#pragma once

#include <cstdint>

namespace penstock {

/// Names a tensor for the life of its engine; never reused. Numbers are given out in sequence.
enum class TensorId : std::uint64_t {};

constexpr std::uint64_t to_number(TensorId id) noexcept {
  return static_cast<std::uint64_t>(id);
}

}  // namespace penstock
