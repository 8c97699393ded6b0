#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/deepspeed/pickle_reader.h"
#include "bindings/deepspeed/pickle_value.h"

namespace penstock {

/// The stack machine that a pickle is written for, which makes descriptions instead of objects.
/// Steps that fail leave a reason in `problem_`.
class PickleMachine {
 public:
  /// Both outlive it.
  PickleMachine(PickleDocument& document, const PickleLimits& limits)
      : document_(document), limits_(limits), left_(document.bytes_) {}

  /// Why the pickle is refused; nothing when the document is whole.
  std::optional<std::string> run();

 private:
  using Kind = PickleValue::Kind;
  static constexpr PickleRef kUnset = ~PickleRef{0};

  bool step(std::uint8_t opcode);
  std::optional<bool> literal(std::uint8_t opcode);
  std::optional<bool> string(std::uint8_t opcode);
  std::optional<bool> container(std::uint8_t opcode);
  std::optional<bool> object(std::uint8_t opcode);
  std::optional<bool> memo(std::uint8_t opcode);

  bool refuse(std::string problem);
  template <class Number>
  bool take(Number& number);
  bool take_bytes(std::uint64_t count, std::string_view& bytes);
  bool take_line(std::string_view& line);

  bool push(PickleRef ref);
  bool is_empty() const { return stack_.size() <= (marks_.empty() ? 0 : marks_.back()); }
  bool push(PickleValue value);
  bool push_kind(Kind kind) { return push(PickleValue{.kind = kind}); }
  template <class Number>
  bool push_integer();
  template <class Length>
  bool push_long();
  template <class Length>
  bool push_string(Kind kind);
  bool push_float();
  bool push_global(std::string_view module, std::string_view name);

  bool pop(PickleRef& ref);
  bool pop_to_mark(std::vector<PickleRef>& refs);
  bool push_tuple(std::size_t count);
  bool push_marked(Kind kind);
  bool append(std::vector<PickleRef> refs, bool pairs);
  bool append_one(bool pair);
  bool append_marked(bool pairs);
  bool call(std::size_t arguments);
  bool build();
  bool push_persistent();
  bool push_stacked_global();
  template <class Index>
  bool put();
  bool remember(std::size_t index);
  template <class Index>
  bool get();

  PickleDocument& document_;
  const PickleLimits& limits_;
  std::span<const std::byte> left_;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;  // lengths of the stack
  std::vector<PickleRef> memo_;     // or kUnset
  std::size_t memo_count_ = 0;
  std::size_t operations_ = 0;
  std::size_t name_bytes_ = 0;  // of globals, which may be made of what was remembered
  std::string problem_;
};

}  // namespace penstock
