#pragma once

#include <cstdint>
#include <memory>

#include "alloc/bytes.h"
#include "alloc/extent_allocator.h"
#include "swap/plan/inventory.h"
#include "swap/transfer/identity_block.h"

namespace penstock {

/// Where one generation of one tensor lies. Layout of the extent: the tensor's bytes up to the last
/// whole 4 KiB; if something remains, one block that begins with it; the identity block.
struct StoredTensor {
  std::uint32_t drive = 0;
  Extent extent;
  IdentityBlock identity;
  /// How many syncs of the drive had failed when the space was taken: what was written before
  /// another one fails may be lost, whatever a later one says. In no manifest.
  std::uint64_t failed_syncs = 0;

  std::uint64_t bytes() const noexcept { return identity.bytes; }
  std::uint64_t body_bytes() const noexcept {
    return align_down(identity.bytes, IdentityBlock::kBytes);
  }
  std::uint64_t tail_bytes() const noexcept { return identity.bytes - body_bytes(); }
  /// The tail's block, if any, and the identity block.
  std::uint64_t trailer_bytes() const noexcept {
    return (tail_bytes() > 0 ? IdentityBlock::kBytes : 0) + IdentityBlock::kBytes;
  }
  /// What the layout needs; `extent` has as many.
  std::uint64_t layout_bytes() const noexcept { return body_bytes() + trailer_bytes(); }
};

/// An extent on a drive, freed when its last holder (manifest, record, read or write in flight)
/// releases it.
using HeldExtent = std::shared_ptr<const StoredTensor>;

/// One tensor of a durable store: what it is, and where its content lies.
struct StoreEntry {
  TensorInfo info;
  StoredTensor stored;
};

}  // namespace penstock
