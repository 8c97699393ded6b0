#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "alloc/excerpt.h"
#include "alloc/result.h"

namespace penstock {

/// Parses strictly: one document, no key twice in an object (parsers disagree about which one
/// counts), no nesting beyond 64 levels. `origin` names the text in errors (`code` is theirs),
/// which say line and column.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& origin, Fault code);

/// The same of a text with `//` and `/* */` comments, which DeepSpeed's configurations may have.
/// (It reads Hjson; of the rest of that, the error says that this is JSON.)
Result<nlohmann::json> parse_commented_json(std::string_view text, const std::string& origin,
                                            Fault code);

/// The same of a text with one document after another, each handed to `take`, whose error ends it.
Result<void> parse_json_documents(std::string_view text, const std::string& origin, Fault code,
                                  const std::function<Result<void>(const nlohmann::json&)>& take);

/// What kind of JSON value this is, with the value where it is short: `the number 3`, `an object`.
std::string describe_json(const nlohmann::json& value);

}  // namespace penstock
