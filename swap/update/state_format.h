#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// How the moments of an optimizer are stored. Masters are always fp32.
enum class StateFormat : std::uint8_t { kF32, kBF16, k8Bit, k4Bit };

/// In the order of StateFormat, as configurations write them.
inline constexpr std::array<std::string_view, 4> kStateFormatNames{"fp32", "bf16", "8bit", "4bit"};

std::string_view state_format_name(StateFormat format) noexcept;

/// Elements that share one scale. Sources: bitsandbytes (8 bit, functional.py: blocksize=256) and
/// torchao (4 bit, optim/subclass_4bit.py: block_size=128).
inline constexpr std::size_t k8BitBlockElements = 256;
inline constexpr std::size_t k4BitBlockElements = 128;

/// Parameters with fewer elements keep fp32 states.
inline constexpr std::uint64_t kNarrowElementsMin = 4096;

/// Bytes of so many elements in a row, a multiple of 4. Each block of 8 or 4 bits has its scale in
/// front, a float; the last block may be short. Pure.
std::uint64_t state_bytes(StateFormat format, std::uint64_t elements) noexcept;

/// Which format the user wants for which parameter's moments.
struct StateFormats {
  StateFormat narrow = StateFormat::kF32;
  std::vector<std::string> fp32_patterns;  ///< globs over the names of parameters that keep fp32

  /// Of the moments of a parameter with so many elements on all ranks together. Pure.
  StateFormat of(std::string_view parameter, std::uint64_t elements) const;
};

/// Neighbouring elements of a state that are stored in the same way: those of one parameter, or a
/// part of them. Blocks begin with it.
struct StateSegment {
  std::uint64_t elements = 0;
  StateFormat format = StateFormat::kF32;
  std::uint64_t padding = 0;  ///< so many of the last elements are no parameter's

  bool operator==(const StateSegment&) const = default;
};

/// Cuts off the first elements, at most so many, and returns them. Pure but for `segment`.
StateSegment take_first(StateSegment& segment, std::uint64_t elements) noexcept;

/// Cuts a state into chunks of so many elements, the last one shorter. fp32 segments that follow
/// each other become one. Pure.
std::vector<std::vector<StateSegment>> cut_segments(std::span<const StateSegment> segments,
                                                    std::uint64_t chunk_elements);

/// Bytes of segments in a row. Pure.
std::uint64_t state_bytes(std::span<const StateSegment> segments) noexcept;

}  // namespace penstock
