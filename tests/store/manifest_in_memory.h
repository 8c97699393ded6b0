#pragma once

#include <cstring>
#include <span>
#include <string>

#include "swap/store/manifest_state.h"

namespace penstock {

/// A manifest that lies in memory.
inline Result<ManifestState> parse_manifest(std::span<const std::byte> bytes,
                                            const std::string& origin) {
  const auto read = [bytes](std::uint64_t offset, std::span<std::byte> target) -> Result<void> {
    if (!target.empty()) {
      std::memcpy(target.data(), bytes.data() + offset, target.size());
    }
    return {};
  };
  return parse_manifest(ManifestBytes{bytes.size(), read}, origin);
}

}  // namespace penstock
