#include "swap/transfer/content_proof.h"

#include "alloc/sabotage.h"

namespace penstock {

ContentProof::ContentProof(const IdentityBlock& identity)
    : identity_(identity), checksum_(static_cast<IntegrityLevel>(identity.level), identity.bytes) {}

std::string ContentProof::difference(std::span<const std::byte> block) {
  std::string difference = identity_.difference(block);
  if (difference.empty() && !sabotaged(Sabotage::kChecksum) &&
      checksum_.finish() != identity_.checksum) {
    difference = "bytes whose checksum is not that of what was written";
  }
  return difference;
}

std::uint64_t ContentProof::seal(std::span<std::byte> block) {
  identity_.checksum = checksum_.finish();
  identity_.encode(block);
  return identity_.checksum;
}

}  // namespace penstock
