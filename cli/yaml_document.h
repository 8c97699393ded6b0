#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "alloc/result.h"

namespace penstock::cli {

/// One YAML document as the JSON value that it stands for. Plain scalars have the types that PyYAML
/// gives them, which follows YAML 1.1: `no` is false, `1e6` is a text. Aliases are replaced by
/// copies. Errors (Fault::kConfiguration, one sentence with `origin` and mostly the line): what is
/// not YAML or not UTF-8, a second document, a key twice, a merge key (`<<`), a tag, an alias of
/// itself, more than 64 levels or 10000 values with the copies.
Result<nlohmann::json> parse_yaml(std::string_view text, const std::string& origin);

}  // namespace penstock::cli
