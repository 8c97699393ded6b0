#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "alloc/result.h"

namespace penstock {

/// The optimizers that a memory table knows; they differ in what they remember per parameter.
enum class OptimizerKind : std::uint8_t { kNone, kAdamW, kAdamW8Bit, kAdamW4Bit };

std::span<const std::string_view>
optimizer_names() noexcept;  ///< adamw, adamw8bit, adamw4bit, none
std::string_view optimizer_name(OptimizerKind kind) noexcept;
Result<OptimizerKind> parse_optimizer(std::string_view text);

/// The kind behind DeepSpeed's `optimizer.type` (letters of any case); AdamW where it is empty or a
/// type that we do not know, because nothing that is common remembers more.
OptimizerKind optimizer_of_type(std::string_view type);

/// Bytes of both moments of `elements` parameters; without the few block scales of quantised ones.
std::uint64_t moment_bytes(OptimizerKind kind, std::uint64_t elements) noexcept;

}  // namespace penstock
