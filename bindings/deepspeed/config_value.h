#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace penstock {

// What a JSON value means, where DeepSpeed's configuration takes more than JSON's own forms: its
// models read flags and numbers as pydantic does (docs.pydantic.dev, "Conversion Table"). Nothing
// where a value is none of these. Pure.

/// true, false, 1, 0, and texts for them such as "true", "no", "On".
std::optional<bool> json_flag(const nlohmann::json& value);

/// Whether Python takes the value for true, as where DeepSpeed passes it on unread.
bool is_truthy(const nlohmann::json& value);

/// A whole number from 0 on, which may be written 1.6e8 or 100000.0.
std::optional<std::uint64_t> json_whole_number(const nlohmann::json& value);

/// The same, or a text of digits; blanks around them and `_` between them do not count.
std::optional<std::uint64_t> json_count(const nlohmann::json& value);

/// Bytes: a whole number, or a text for parse_bytes().
std::optional<std::uint64_t> json_bytes(const nlohmann::json& value);

}  // namespace penstock
