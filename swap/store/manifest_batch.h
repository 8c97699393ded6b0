#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "alloc/bytes.h"
#include "swap/store/manifest_record.h"

namespace penstock {

/// The first block of a manifest. Its layout is the same for ever, so that any penstock can tell
/// whether it knows the rest.
struct ManifestHead {
  static constexpr std::uint32_t kVersion = 1;

  std::uint32_t version = kVersion;
  std::uint64_t store = 0;           ///< the store's number, for life
  std::uint64_t first_sequence = 0;  ///< of the batch behind it
};

/// What a block says when it is asked whether it is a head.
enum class HeadIs : std::uint8_t { kGood, kForeign, kDamaged };

/// kBlockBytes of it.
std::vector<std::byte> encode_head(const ManifestHead& head);
HeadIs decode_head(std::span<const std::byte> bytes, ManifestHead& head);

/// A batch is what one publish appends: a header, its records, zeros up to the next whole block.
/// It counts as a whole or not at all. Batches follow one another without gaps, numbered in
/// sequence; a block that holds something published is never written again.
std::vector<std::byte> encode_batch(std::uint64_t store, std::uint64_t sequence,
                                    std::span<const ManifestRecord> records);

/// The header of a batch, which carries a seal of its own: where one of this store stands, it was
/// written whole once, and so was every batch before it.
struct BatchHeader {
  static constexpr std::uint64_t kBytes = 48;

  std::uint64_t sequence = 0;
  std::uint64_t records_bytes = 0;  ///< behind the header; what it says need not be there
  std::uint64_t records_seal = 0;   ///< checksum of these, IntegrityLevel::kFull

  /// Of the whole batch, with header and padding; for `records_bytes` below 2^63.
  std::uint64_t batch_bytes() const noexcept {
    return align_up(kBytes + records_bytes, kBlockBytes);
  }
};

/// What stands at the first of `bytes` (BatchHeader::kBytes of them suffice); nothing if that is no
/// batch header of this store.
std::optional<BatchHeader> decode_batch_header(std::uint64_t store,
                                               std::span<const std::byte> bytes);

}  // namespace penstock
