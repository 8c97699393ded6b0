#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "swap/update/code_book.h"
#include "swap/update/state_format.h"

namespace penstock {

/// How the elements of one moment, or of a chunk of it, lie in bytes. Immutable, thread-safe.
///
/// A block of 8 or 4 bits is its scale and its codes; an element is the scale times its code's
/// value. The scale is the block's element of the largest magnitude, sign included, so that what is
/// decoded encodes to the same bytes (a scale below 2^-125 aside): contents may pass through fp32,
/// as in checkpoints. Padding of a segment has no part in that: it is encoded as zero. A block with
/// an element that is not finite is decoded as NaN. The error of an element is at most half the
/// distance between the two values around it, times the scale (a positive second moment that would
/// be 0 aside).
class MomentLayout {
 public:
  /// Neighbouring elements of one format and segment, at most kRunElements: blocks do not reach
  /// over its ends.
  struct Run {
    std::uint64_t element = 0;  ///< the first
    std::uint64_t byte = 0;     ///< of it
    std::size_t elements = 0;
    StateFormat format = StateFormat::kF32;
    std::size_t padding = 0;  ///< of the segment: so many of the last elements
  };

  MomentLayout(Moment moment, std::span<const StateSegment> segments);

  std::uint64_t elements() const noexcept { return elements_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::span<const Run> runs() const noexcept { return runs_; }

  /// One run: `values` has its elements, `bytes` begins with those of the layout.
  void decode(const Run& run, std::span<const std::byte> bytes, std::span<float> values) const;
  void encode(const Run& run, std::span<const float> values, std::span<std::byte> bytes) const;
  /// The same of what step number `step` has made: a second moment in bf16 is rounded at random.
  void encode_step(const Run& run, std::span<const float> values, std::uint64_t step,
                   std::span<std::byte> bytes) const;

  /// All of it. `values` has elements(), `bytes` has bytes().
  void decode(std::span<const std::byte> bytes, std::span<float> values) const;
  void encode(std::span<const float> values, std::span<std::byte> bytes) const;

 private:
  Moment moment_;
  std::uint64_t elements_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<Run> runs_;
};

}  // namespace penstock
