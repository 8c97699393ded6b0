#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "swap/plan/inventory.h"

namespace penstock {

/// Whether values of one type can be written as the other: bf16, f16 and f32 among each other, and
/// every type as itself.
bool converts(DType from, DType to) noexcept;

/// Rounds to the nearest, ties to even; what is too large becomes infinite, and a NaN stays one, as
/// torch's `.to()` does. `target` has room for as many elements as `source` has; both are aligned
/// for theirs. CHECKs converts(from, to). Pure.
void convert(DType from, std::span<const std::byte> source, DType to, std::span<std::byte> target);

/// The same of the first `elements` of `memory`, which has room for them in either type.
void convert_in_place(DType from, DType to, std::span<std::byte> memory, std::size_t elements);

}  // namespace penstock
