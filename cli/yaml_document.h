#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "alloc/result.h"

namespace penstock::cli {

/// One YAML document as the JSON value that it stands for. Plain scalars are what plain_scalar()
/// makes of them. Aliases are replaced by copies. Errors (Fault::kConfiguration, one sentence with
/// `origin` and mostly the line): what is not YAML or not UTF-8, a second document, a key twice, a
/// merge key (`<<`), a tag, an alias of itself, more than 64 levels or 10000 values with the
/// copies.
Result<nlohmann::json> parse_yaml(std::string_view text, const std::string& origin);

}  // namespace penstock::cli
