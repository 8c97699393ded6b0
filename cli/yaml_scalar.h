#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock::cli {

/// What a plain scalar of YAML is to PyYAML's safe_load(), which follows YAML 1.1: `no` is false,
/// `010` is 8, `0x2` is 2, `1_0` is 10, `1:30` is 90, and `0o7`, `08`, `5e8` and `-.5` are texts.
/// Texts here, and not there: `.inf`, `.nan`, dates, numbers with both colons and a point, and
/// numbers that do not fit.
nlohmann::json plain_scalar(const std::string& text);

}  // namespace penstock::cli
