#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "swap/store/manifest_batch.h"
#include "swap/store/manifest_bytes.h"
#include "swap/store/manifest_record.h"

namespace penstock {

/// The records of one batch, in order, without holding the batch: a window of 4 MiB, or of one
/// record that is larger.
class BatchReader {
 public:
  /// `offset`: of the batch's header. `bytes` outlives this object.
  BatchReader(const ManifestBytes& bytes, std::uint64_t offset, const BatchHeader& header);

  /// Whether the records are there and are what was written; reads all of them once. Errors: errno.
  Result<bool> is_whole();

  bool at_end() const noexcept { return next_ == end_; }
  /// Nothing where the record is damaged, not known or larger than any (128 MiB). Errors: errno.
  Result<std::optional<ManifestRecord>> next();

 private:
  Result<std::span<const std::byte>> window(std::uint64_t offset, std::uint64_t bytes);

  const ManifestBytes& source_;
  const BatchHeader header_;
  const std::uint64_t begin_;  // of the records, in the manifest
  const std::uint64_t end_;
  std::uint64_t next_;
  std::vector<std::byte> held_;  // of [held_begin_, held_begin_ + held_.size())
  std::uint64_t held_begin_ = 0;
};

}  // namespace penstock
