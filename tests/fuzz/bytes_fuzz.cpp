// Sizes as users write them: what is accepted is what a wider arithmetic says, to the byte.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "tests/fuzz/sentence.h"

namespace penstock {
namespace {

/// The number in front of the unit as a long double, which holds every 64-bit whole number exactly.
long double leading_number(const std::string& text) {
  return std::strtold(text.c_str(), nullptr);
}

void check_accepted(std::string_view text, std::uint64_t size_bytes) {
  PENSTOCK_CHECK(parse_bytes(std::to_string(size_bytes)).value() == size_bytes, "'{}' as {}", text,
                 size_bytes);
  const std::string shown = format_bytes(size_bytes);
  PENSTOCK_CHECK(!shown.empty() && shown.size() < 16, "{} shown as '{}'", size_bytes, shown);
  // `0x10` and `inf` are numbers to strtold and must not have come this far.
  const std::size_t letters = text.find_first_not_of(" \t0123456789.eE+-");
  const std::string number(text.substr(0, letters));
  const long double value = leading_number(number);
  if (letters == std::string_view::npos && number.find_first_of("eE") == std::string::npos) {
    PENSTOCK_CHECK(std::fabs(value - static_cast<long double>(size_bytes)) < 1.0L, "'{}' is {}",
                   text, size_bytes);
  }
  PENSTOCK_CHECK(value >= 0 && static_cast<long double>(size_bytes) + 1.0L >= value,
                 "'{}' became smaller: {}", text, size_bytes);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const Result<std::uint64_t> parsed = parse_bytes(text);
  if (parsed.has_error()) {
    expect_sentence(parsed.error());
  } else {
    check_accepted(text, *parsed);
  }
  return 0;
}
