#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// `text`, which comes from outside, as it can stand in a message: at most 200 bytes (and "..."
/// where there were more), a space for each control character, a question mark for each byte that
/// is no UTF-8.
std::string excerpt(std::string_view text);

/// What an exception of nlohmann's says, `[json.exception.parse_error.101] parse error at line 1`,
/// without its tag, as an excerpt.
std::string json_reason(std::string_view message);

}  // namespace penstock
