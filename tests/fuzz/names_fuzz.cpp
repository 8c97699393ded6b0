// Short words of configurations and of the command line: element types, roles, places, engines, and
// patterns over names of tensors. A pattern is checked against the plainest matcher there is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "alloc/check.h"
#include "bindings/deepspeed/config.h"
#include "io/engine_probe.h"
#include "swap/plan/inventory.h"
#include "swap/plan/name_pattern.h"
#include "swap/plan/natural_order.h"
#include "tests/fuzz/sentence.h"

namespace penstock {
namespace {

/// By definition, in exponential time: for short words only.
bool matches_by_definition(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) {
    return name.empty();
  }
  if (pattern.front() == '*') {
    return matches_by_definition(pattern.substr(1), name) ||
           (!name.empty() && matches_by_definition(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern.front() == '?' || pattern.front() == name.front()) &&
         matches_by_definition(pattern.substr(1), name.substr(1));
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

void check_pattern(std::string_view pattern, std::string_view name) {
  const bool matches = matches_pattern(pattern, name);
  constexpr std::size_t kShort = 8;
  if (pattern.size() <= kShort && name.size() <= kShort) {
    PENSTOCK_CHECK(matches == matches_by_definition(pattern, name), "'{}' and '{}'", pattern, name);
  }
}

/// A strict total order, or sorting by it is undefined.
void check_order(std::string_view a, std::string_view b, std::string_view c) {
  PENSTOCK_CHECK(!natural_less(a, a), "'{}' is before itself", a);
  PENSTOCK_CHECK((a == b) == (!natural_less(a, b) && !natural_less(b, a)), "'{}' and '{}'", a, b);
  PENSTOCK_CHECK(!(natural_less(a, b) && natural_less(b, a)), "'{}' and '{}'", a, b);
  PENSTOCK_CHECK(!(natural_less(a, b) && natural_less(b, c)) || natural_less(a, c),
                 "'{}', '{}' and '{}'", a, b, c);
}

template <class Value>
void expect_value_or_sentence(const Result<Value>& result) {
  if (result.has_error()) {
    expect_sentence(result.error());
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  expect_value_or_sentence(parse_dtype(text));
  expect_value_or_sentence(parse_role(text));
  expect_value_or_sentence(parse_engine_kind(text));

  std::string_view rest = text;
  const std::string_view a = take_line(rest);
  const std::string_view b = take_line(rest);
  const std::string_view c = take_line(rest);
  check_pattern(a, b);
  check_order(a, b, c);
  return 0;
}
