#include "bindings/deepspeed/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "a pickle's numbers are little-endian");

constexpr std::uint8_t kStop = '.';
constexpr std::uint8_t kProtocol = 0x80;
constexpr std::uint8_t kProtocolMax = 5;

/// Fewer than 9 bytes of two's complement, the lowest first.
std::int64_t integer_of(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t at = bytes.size(); at-- > 0;) {
    number = number << 8U | static_cast<unsigned char>(bytes[at]);
  }
  const std::size_t unused_bits = 64 - 8 * bytes.size();
  return bytes.empty() ? 0 : static_cast<std::int64_t>(number << unused_bits) >> unused_bits;
}

}  // namespace

std::optional<std::string> PickleMachine::run() {
  const std::size_t bytes = left_.size();
  std::uint8_t opcode = 0;
  std::uint8_t protocol = 0;
  if (!take(opcode) || opcode != kProtocol || !take(protocol) || protocol > kProtocolMax) {
    return "no pickle of protocols 2 to 5, which is what torch.save writes";
  }
  while (problem_.empty() && ++operations_ <= limits_.operations) {
    const std::size_t offset = bytes - left_.size();
    if (!take(opcode)) {
      return "the pickle is cut short";
    }
    if (opcode == kStop) {
      return pop(document_.root_) ? std::nullopt : std::optional(problem_);
    }
    if (!step(opcode)) {
      return fmt::format("{} (byte {} of the pickle)", problem_, offset);
    }
  }
  return "the pickle describes too much to be read";
}

bool PickleMachine::step(std::uint8_t opcode) {
  for (const auto family : {&PickleMachine::memo, &PickleMachine::literal, &PickleMachine::string,
                            &PickleMachine::container, &PickleMachine::object}) {
    if (const std::optional<bool> done = (this->*family)(opcode)) {
      return *done;
    }
  }
  return refuse(
      fmt::format("the pickle has opcode {:#04x}, which no pickler of protocols 2 to 5 "
                  "writes into a file",
                  opcode));
}

std::optional<bool> PickleMachine::memo(std::uint8_t opcode) {
  switch (opcode) {
    case 'q':
      return put<std::uint8_t>();
    case 'r':
      return put<std::uint32_t>();
    case 0x94:  // MEMOIZE
      return remember(memo_count_);
    case 'h':
      return get<std::uint8_t>();
    case 'j':
      return get<std::uint32_t>();
    default:
      return std::nullopt;
  }
}

std::optional<bool> PickleMachine::literal(std::uint8_t opcode) {
  switch (opcode) {
    case 'N':
      return push(PickleRef{0});
    case 0x88:
    case 0x89:
      return push(PickleValue{.kind = Kind::kBool, .integer = opcode == 0x88 ? 1 : 0});
    case 'K':
      return push_integer<std::uint8_t>();
    case 'M':
      return push_integer<std::uint16_t>();
    case 'J':
      return push_integer<std::int32_t>();
    case 0x8a:
      return push_long<std::uint8_t>();
    case 0x8b:
      return push_long<std::uint32_t>();
    case 'G':
      return push_float();
    default:
      return std::nullopt;
  }
}

std::optional<bool> PickleMachine::string(std::uint8_t opcode) {
  switch (opcode) {
    case 0x8c:
      return push_string<std::uint8_t>(Kind::kText);
    case 'X':
      return push_string<std::uint32_t>(Kind::kText);
    case 0x8d:
      return push_string<std::uint64_t>(Kind::kText);
    case 'U':  // Python 2's str, which torch has read as text ever since
      return push_string<std::uint8_t>(Kind::kText);
    case 'T':
      return push_string<std::uint32_t>(Kind::kText);
    case 'C':
      return push_string<std::uint8_t>(Kind::kBytes);
    case 'B':
      return push_string<std::uint32_t>(Kind::kBytes);
    case 0x8e:
    case 0x96:  // bytearray
      return push_string<std::uint64_t>(Kind::kBytes);
    default:
      return std::nullopt;
  }
}

std::optional<bool> PickleMachine::container(std::uint8_t opcode) {
  PickleRef dropped = 0;
  std::vector<PickleRef> several;
  switch (opcode) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '0':
      return pop(dropped);
    case '1':
      return pop_to_mark(several);
    case '2':
      return is_empty() ? refuse("nothing to double") : push(stack_.back());
    case ']':
      return push_kind(Kind::kList);
    case '}':
      return push_kind(Kind::kDict);
    case 0x8f:
      return push_kind(Kind::kSet);
    case ')':
      return push_tuple(0);
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(opcode - 0x84U);
    case 't':
      return push_marked(Kind::kTuple);
    case 0x91:
      return push_marked(Kind::kSet);
    case 'a':
      return append_one(false);
    case 's':
      return append_one(true);
    case 'e':
    case 0x90:
      return append_marked(false);
    case 'u':
      return append_marked(true);
    default:
      return std::nullopt;
  }
}

std::optional<bool> PickleMachine::object(std::uint8_t opcode) {
  std::string_view module;
  std::string_view name;
  std::uint64_t frame_bytes = 0;
  switch (opcode) {
    case 0x95:  // FRAME: how much may be read at once, which is all of it here
      return take(frame_bytes);
    case 'c':
      return take_line(module) && take_line(name) && push_global(module, name);
    case 0x93:
      return push_stacked_global();
    case 'R':
    case 0x81:
      return call(1);
    case 0x92:
      return call(2);
    case 'b':
      return build();
    case 'Q':
      return push_persistent();
    default:
      return std::nullopt;
  }
}

bool PickleMachine::refuse(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

template <class Number>
bool PickleMachine::take(Number& number) {
  if (left_.size() < sizeof number) {
    return refuse("the pickle is cut short");
  }
  std::memcpy(&number, left_.data(), sizeof number);
  left_ = left_.subspan(sizeof number);
  return true;
}

bool PickleMachine::take_bytes(std::uint64_t count, std::string_view& bytes) {
  if (count > left_.size()) {
    return refuse(fmt::format("the pickle is cut short: {} bytes are announced and {} left", count,
                              left_.size()));
  }
  bytes = {reinterpret_cast<const char*>(left_.data()), count};
  left_ = left_.subspan(count);
  return true;
}

bool PickleMachine::take_line(std::string_view& line) {
  const auto end = std::ranges::find(left_, std::byte{'\n'});
  return take_bytes(static_cast<std::uint64_t>(end - left_.begin()), line) &&
         (left_.empty() ? refuse("the pickle is cut short") : (left_ = left_.subspan(1), true));
}

template <class Number>
bool PickleMachine::push_integer() {
  Number number{};
  return take(number) && push(PickleValue{.kind = Kind::kInteger, .integer = number});
}

template <class Length>
bool PickleMachine::push_long() {
  Length length{};
  std::string_view bytes;
  if (!take(length) || !take_bytes(length, bytes)) {
    return false;
  }
  if (bytes.size() <= sizeof(std::int64_t)) {
    return push(PickleValue{.kind = Kind::kInteger, .integer = integer_of(bytes)});
  }
  return push(PickleValue{.kind = Kind::kLargeInteger, .text = bytes});
}

template <class Length>
bool PickleMachine::push_string(Kind kind) {
  Length length{};
  std::string_view bytes;
  return take(length) && take_bytes(length, bytes) &&
         push(PickleValue{.kind = kind, .text = bytes});
}

/// The one number whose highest byte comes first.
bool PickleMachine::push_float() {
  std::array<std::byte, sizeof(double)> bytes{};
  if (!take(bytes)) {
    return false;
  }
  std::ranges::reverse(bytes);
  return push(PickleValue{.kind = Kind::kFloat, .number = std::bit_cast<double>(bytes)});
}

template <class Index>
bool PickleMachine::put() {
  Index index{};
  return take(index) && remember(index);
}

template <class Index>
bool PickleMachine::get() {
  Index index{};
  if (!take(index)) {
    return false;
  }
  if (index >= memo_.size() || memo_[index] == kUnset) {
    return refuse("the pickle asks for what it never remembered");
  }
  return push(memo_[index]);
}

}  // namespace penstock
