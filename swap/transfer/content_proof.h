#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "swap/transfer/checksum.h"
#include "swap/transfer/identity_block.h"

namespace penstock {

/// Proves that a content is what was written, or makes what proves it later: its checksum, formed
/// while its bytes pass in order, and the identity block behind them. The only place that compares
/// either. Used by one thread at a time.
class ContentProof {
 public:
  /// `identity`: what is expected; of a content that is written, all but the checksum.
  explicit ContentProof(const IdentityBlock& identity);

  /// The next bytes of the content; whole 4 KiB but for the last.
  void update(std::span<const std::byte> part) { checksum_.update(part); }

  // Once, when the last byte has passed, one of the two.

  /// How content or `block`, the identity block that came with it, differ from what was written.
  /// Empty: they do not.
  std::string difference(std::span<const std::byte> block);
  /// Fills `block` with the identity, checksum included, and gives that.
  std::uint64_t seal(std::span<std::byte> block);

 private:
  IdentityBlock identity_;
  ChecksumStream checksum_;
};

}  // namespace penstock
