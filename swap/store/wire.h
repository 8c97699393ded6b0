#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Appends numbers (little-endian, whatever the machine) and texts (their length first) to bytes
/// that go to a drive.
class WireWriter {
 public:
  explicit WireWriter(std::vector<std::byte>& target) : target_(target) {}

  void put_u8(std::uint8_t value) { put_number(value, 1); }
  void put_u32(std::uint32_t value) { put_number(value, 4); }
  void put_u64(std::uint64_t value) { put_number(value, 8); }
  void put_double(double value);
  /// At most 2^32 - 1 letters.
  void put_text(std::string_view text);

 private:
  void put_number(std::uint64_t value, int bytes);
  std::vector<std::byte>& target_;
};

/// Reads the same from bytes that may be anything. Where they end too early, that and everything
/// after it is 0 or empty, and good() says so: ask once at the end.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> source) : source_(source) {}

  std::uint8_t take_u8() { return static_cast<std::uint8_t>(take_number(1)); }
  std::uint16_t take_u16() { return static_cast<std::uint16_t>(take_number(2)); }
  std::uint32_t take_u32() { return static_cast<std::uint32_t>(take_number(4)); }
  std::uint64_t take_u64() { return take_number(8); }
  double take_double();
  std::string take_text();
  std::span<const std::byte> take_bytes(std::uint64_t bytes);

  bool good() const noexcept { return good_; }
  std::size_t left() const noexcept { return source_.size(); }

 private:
  std::uint64_t take_number(std::size_t bytes);

  std::span<const std::byte> source_;
  bool good_ = true;
};

}  // namespace penstock
