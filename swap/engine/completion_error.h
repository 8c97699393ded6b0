#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "alloc/result.h"

namespace penstock {

/// Why a device transfer failed, if it did.
inline std::optional<Error> error_of(Result<std::uint64_t> done) {
  return done.has_error() ? std::optional(std::move(done).error()) : std::nullopt;
}

}  // namespace penstock
