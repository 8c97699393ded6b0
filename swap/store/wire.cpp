#include "swap/store/wire.h"

#include <bit>

namespace penstock {

void WireWriter::put_number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    target_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

void WireWriter::put_double(double value) {
  put_u64(std::bit_cast<std::uint64_t>(value));
}

void WireWriter::put_text(std::string_view text) {
  put_u32(static_cast<std::uint32_t>(text.size()));
  const std::span<const std::byte> letters = std::as_bytes(std::span(text));
  target_.insert(target_.end(), letters.begin(), letters.end());
}

std::span<const std::byte> WireReader::take_bytes(std::uint64_t bytes) {
  if (!good_ || bytes > source_.size()) {
    good_ = false;
    source_ = {};
    return {};
  }
  const std::span<const std::byte> taken = source_.first(static_cast<std::size_t>(bytes));
  source_ = source_.subspan(static_cast<std::size_t>(bytes));
  return taken;
}

std::uint64_t WireReader::take_number(std::size_t bytes) {
  const std::span<const std::byte> taken = take_bytes(bytes);
  std::uint64_t value = 0;
  for (std::size_t i = taken.size(); i-- > 0;) {
    value = value << 8 | static_cast<std::uint64_t>(taken[i]);
  }
  return value;
}

double WireReader::take_double() {
  return std::bit_cast<double>(take_u64());
}

std::string WireReader::take_text() {
  const std::span<const std::byte> taken = take_bytes(take_u32());
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

}  // namespace penstock
