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

/// A batch found in a manifest; borrows the bytes it was found in.
struct FoundBatch {
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;  ///< with header and padding
  std::span<const std::byte> records;
  bool whole = false;  ///< `records` are what was written; otherwise only the header is
};

/// What begins at the first of `bytes`; nothing if that is no batch header of this store.
std::optional<FoundBatch> find_batch(std::uint64_t store, std::span<const std::byte> bytes);

}  // namespace penstock
