#include "swap/update/state_format.h"

#include <algorithm>

#include "alloc/bytes.h"
#include "swap/plan/name_pattern.h"

namespace penstock {
namespace {

constexpr std::uint64_t kScaleBytes = sizeof(float);

std::uint64_t block_bytes(std::uint64_t elements, std::uint64_t block_elements,
                          std::uint64_t code_bits) noexcept {
  const std::uint64_t blocks = (elements + block_elements - 1) / block_elements;
  const std::uint64_t code_bytes = (elements * code_bits + 7) / 8;
  return blocks * kScaleBytes + align_up(code_bytes, kScaleBytes);
}

void append(std::vector<StateSegment>& chunk, const StateSegment& segment) {
  const bool joins = !chunk.empty() && segment.format == StateFormat::kF32 &&
                     chunk.back().format == StateFormat::kF32;
  if (joins) {
    chunk.back().elements += segment.elements;
    chunk.back().padding = 0;
  } else {
    chunk.push_back(segment);
  }
}

}  // namespace

std::string_view state_format_name(StateFormat format) noexcept {
  return kStateFormatNames[static_cast<std::size_t>(format)];
}

std::uint64_t state_bytes(StateFormat format, std::uint64_t elements) noexcept {
  switch (format) {
    case StateFormat::kF32:
      return elements * sizeof(float);
    case StateFormat::kBF16:
      return align_up(elements * 2, sizeof(float));
    case StateFormat::k8Bit:
      return block_bytes(elements, k8BitBlockElements, 8);
    case StateFormat::k4Bit:
      return block_bytes(elements, k4BitBlockElements, 4);
  }
  return 0;
}

StateFormat StateFormats::of(std::string_view parameter, std::uint64_t elements) const {
  const bool is_exempt =
      elements < kNarrowElementsMin ||
      std::ranges::any_of(
          fp32_patterns,
          [parameter](const std::string& pattern) { return matches_pattern(pattern, parameter); });
  return is_exempt ? StateFormat::kF32 : narrow;
}

StateSegment take_first(StateSegment& segment, std::uint64_t elements) noexcept {
  const std::uint64_t of_a_parameter = segment.elements - segment.padding;
  StateSegment first{std::min(elements, segment.elements), segment.format};
  first.padding = first.elements - std::min(first.elements, of_a_parameter);
  segment.elements -= first.elements;
  segment.padding -= first.padding;
  return first;
}

std::vector<std::vector<StateSegment>> cut_segments(std::span<const StateSegment> segments,
                                                    std::uint64_t chunk_elements) {
  std::vector<std::vector<StateSegment>> chunks;
  std::uint64_t room = 0;  // elements that the last chunk still takes
  for (StateSegment segment : segments) {
    while (segment.elements > 0) {
      if (room == 0) {
        chunks.emplace_back();
        room = chunk_elements;
      }
      const StateSegment part = take_first(segment, room);
      append(chunks.back(), part);
      room -= part.elements;
    }
  }
  return chunks;
}

std::uint64_t state_bytes(std::span<const StateSegment> segments) noexcept {
  std::uint64_t bytes = 0;
  for (const StateSegment& segment : segments) {
    bytes += state_bytes(segment.format, segment.elements);
  }
  return bytes;
}

}  // namespace penstock
