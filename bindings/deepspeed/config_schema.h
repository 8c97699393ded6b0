#pragma once

#include <nlohmann/json_fwd.hpp>

namespace penstock {

/// A JSON Schema (draft 2020-12, https://json-schema.org/draft/2020-12) of DeepSpeed's file and the
/// `penstock` block, from the tables that parse_config() reads by. It accepts what parse_config()
/// takes, and what one value alone cannot show as well: a size that is no whole number of bytes,
/// min_bytes above max_bytes, bf16 beside fp16. Objects whose table is complete allow no other
/// keys.
nlohmann::ordered_json config_schema();

}  // namespace penstock
