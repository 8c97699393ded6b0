#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/deepspeed/pickle_reader.h"

namespace penstock {

/// Writes opcodes one after the other, between PROTO 2 and STOP.
class PickleProgram {
 public:
  PickleProgram& op(char opcode) {
    text_ += opcode;
    return *this;
  }
  template <class Number>
  PickleProgram& op(char opcode, Number operand) {
    char bytes[sizeof operand];
    std::memcpy(bytes, &operand, sizeof operand);
    text_ += opcode;
    text_.append(bytes, sizeof operand);
    return *this;
  }
  PickleProgram& text(std::string_view value) {
    op('X', static_cast<std::uint32_t>(value.size()));
    text_ += value;
    return *this;
  }
  PickleProgram& integer(std::int32_t value) { return op('J', value); }
  PickleProgram& global(std::string_view module, std::string_view name) {
    text_ += "c" + std::string(module) + "\n" + std::string(name) + "\n";
    return *this;
  }
  PickleProgram& raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }

  std::vector<std::byte> bytes() const {
    const std::string whole = "\x80\x02" + text_ + ".";
    const auto* begin = reinterpret_cast<const std::byte*>(whole.data());
    return {begin, begin + whole.size()};
  }
  Result<PickleDocument> read() const { return read_pickle(bytes(), "x.pt"); }

 private:
  std::string text_;
};

}  // namespace penstock
