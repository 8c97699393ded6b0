#include "swap/store/manifest_bytes.h"

#include <cstring>

namespace penstock {

ManifestBytes ManifestBytes::of(std::span<const std::byte> bytes) {
  return {bytes.size(), [bytes](std::uint64_t offset, std::span<std::byte> target) -> Result<void> {
            if (!target.empty()) {
              std::memcpy(target.data(), bytes.data() + offset, target.size());
            }
            return {};
          }};
}

}  // namespace penstock
