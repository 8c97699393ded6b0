#include "swap/update/moment_layout.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "alloc/check.h"
#include "swap/transfer/dtype_conversion.h"
#include "swap/update/random_rounding.h"
#include "swap/update/stretch.h"

namespace penstock {
namespace {

static_assert(kRunElements % k8BitBlockElements == 0 && kRunElements % k4BitBlockElements == 0);

// What state_bytes() rounds up at the end of a run is zero, so that equal values are equal bytes.
constexpr std::size_t kPaddingMax = 4;

std::size_t block_elements(StateFormat format) noexcept {
  return format == StateFormat::k8Bit ? k8BitBlockElements : k4BitBlockElements;
}

/// The element of the largest magnitude; of two with opposite signs the positive one. NaN where an
/// element is not finite.
float scale_of(std::span<const float> values) noexcept {
  float highest = 0;
  float lowest = 0;
  float poison = 0;  // 0, or NaN
  for (const float value : values) {
    highest = std::max(highest, value);
    lowest = std::min(lowest, value);
    poison += value * 0;
  }
  return (highest >= -lowest ? highest : lowest) + poison;
}

/// Of the block's scale. Of a positive number it is positive, also where the quotient is too small
/// or the caller takes denormal numbers for zero.
float share_of(float value, float scale) noexcept {
  const float share = value / scale;
  return share == 0 && value > 0 ? std::numeric_limits<float>::min() : share;
}

/// `values` are those of a parameter; padding behind them, to `elements` in all, is zero.
void encode_block(StateFormat format, const CodeBook& book, std::span<const float> values,
                  std::size_t elements, std::byte* out) noexcept {
  const float scale = scale_of(values);
  std::memcpy(out, &scale, sizeof(scale));
  std::byte* const codes = out + sizeof(scale);
  const float divisor = scale == 0 ? 1 : scale;
  if (format == StateFormat::k8Bit) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      codes[i] = std::byte{book.nearest(share_of(values[i], divisor))};
    }
    std::fill(codes + values.size(), codes + elements, std::byte{book.nearest(0)});
    return;
  }
  const auto code = [&](std::size_t i) {
    return book.nearest(i < values.size() ? share_of(values[i], divisor) : 0);
  };
  for (std::size_t i = 0; i < elements; i += 2) {
    const std::uint8_t low = code(i);
    const std::uint8_t high = i + 1 < elements ? code(i + 1) : std::uint8_t{0};
    codes[i / 2] = static_cast<std::byte>(low | (high << 4U));
  }
}

void decode_block(StateFormat format, const CodeBook& book, const std::byte* in,
                  std::span<float> values) noexcept {
  float scale = 0;
  std::memcpy(&scale, in, sizeof(scale));
  const std::byte* const codes = in + sizeof(scale);
  if (format == StateFormat::k8Bit) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = book.value(std::to_integer<std::uint8_t>(codes[i])) * scale;
    }
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto pair = std::to_integer<unsigned>(codes[i / 2]);
    values[i] = book.value(static_cast<std::uint8_t>((pair >> (i % 2 * 4)) & 15U)) * scale;
  }
}

/// Of a format without codes.
std::optional<DType> plain_dtype(StateFormat format) noexcept {
  switch (format) {
    case StateFormat::kF32:
      return DType::kF32;
    case StateFormat::kBF16:
      return DType::kBF16;
    case StateFormat::k8Bit:
    case StateFormat::k4Bit:
      break;
  }
  return std::nullopt;
}

void check(const MomentLayout::Run& run, std::size_t values) {
  PENSTOCK_CHECK(values == run.elements, "{} values for a run of {}", values, run.elements);
}

void clear_padding(const MomentLayout::Run& run, std::span<std::byte> bytes) {
  const std::uint64_t end = run.byte + state_bytes(run.format, run.elements);
  std::memset(bytes.data() + end - kPaddingMax, 0, kPaddingMax);
}

/// Calls act(first element, elements, first byte) for each block of a run.
template <class Act>
void for_each_block(const MomentLayout::Run& run, Act act) {
  const std::size_t step = block_elements(run.format);
  const std::uint64_t bytes = state_bytes(run.format, step);
  std::uint64_t byte = run.byte;
  for (std::size_t begin = 0; begin < run.elements; begin += step, byte += bytes) {
    act(begin, std::min(step, run.elements - begin), byte);
  }
}

}  // namespace

MomentLayout::MomentLayout(Moment moment, std::span<const StateSegment> segments)
    : moment_(moment) {
  for (StateSegment segment : segments) {
    while (segment.elements > 0) {
      const StateSegment part = take_first(segment, kRunElements);
      runs_.push_back({elements_, bytes_, part.elements, part.format, part.padding});
      elements_ += part.elements;
      bytes_ += state_bytes(part.format, part.elements);
    }
  }
}

void MomentLayout::decode(const Run& run, std::span<const std::byte> bytes,
                          std::span<float> values) const {
  check(run, values.size());
  if (const std::optional<DType> dtype = plain_dtype(run.format)) {
    convert(*dtype, bytes.subspan(run.byte, run.elements * dtype_bytes(*dtype)), DType::kF32,
            std::as_writable_bytes(values));
    return;
  }
  const CodeBook& book = code_book(run.format, moment_);
  for_each_block(run, [&](std::size_t begin, std::size_t count, std::uint64_t byte) {
    decode_block(run.format, book, bytes.data() + byte, values.subspan(begin, count));
  });
}

void MomentLayout::encode(const Run& run, std::span<const float> values,
                          std::span<std::byte> bytes) const {
  check(run, values.size());
  clear_padding(run, bytes);
  if (const std::optional<DType> dtype = plain_dtype(run.format)) {
    convert(DType::kF32, std::as_bytes(values), *dtype,
            bytes.subspan(run.byte, run.elements * dtype_bytes(*dtype)));
    return;
  }
  const CodeBook& book = code_book(run.format, moment_);
  const std::size_t of_a_parameter = run.elements - run.padding;
  for_each_block(run, [&](std::size_t begin, std::size_t count, std::uint64_t byte) {
    const std::size_t first = std::min(begin, of_a_parameter);
    const std::size_t end = std::min(begin + count, of_a_parameter);
    encode_block(run.format, book, values.subspan(first, end - first), count, bytes.data() + byte);
  });
}

void MomentLayout::encode_step(const Run& run, std::span<const float> values, std::uint64_t step,
                               std::span<std::byte> bytes) const {
  if (run.format != StateFormat::kBF16 || moment_ != Moment::kSecond) {
    encode(run, values, bytes);
    return;
  }
  check(run, values.size());
  clear_padding(run, bytes);
  round_randomly(values, step, bytes.subspan(run.byte, run.elements * dtype_bytes(DType::kBF16)));
}

void MomentLayout::decode(std::span<const std::byte> bytes, std::span<float> values) const {
  PENSTOCK_CHECK(bytes.size() == bytes_ && values.size() == elements_, "{} bytes, {} values",
                 bytes.size(), values.size());
  for (const Run& run : runs_) {
    decode(run, bytes, values.subspan(run.element, run.elements));
  }
}

void MomentLayout::encode(std::span<const float> values, std::span<std::byte> bytes) const {
  PENSTOCK_CHECK(bytes.size() == bytes_ && values.size() == elements_, "{} bytes, {} values",
                 bytes.size(), values.size());
  for (const Run& run : runs_) {
    encode(run, values.subspan(run.element, run.elements), bytes);
  }
}

}  // namespace penstock
