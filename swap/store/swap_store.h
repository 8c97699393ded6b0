#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "alloc/extent_allocator.h"
#include "alloc/result.h"
#include "io/file.h"
#include "io/file_system.h"
#include "swap/plan/config.h"
#include "swap/store/identity_block.h"

namespace penstock {

/// Where one generation of one tensor lies. Layout of the extent: the tensor's bytes up to the last
/// whole 4 KiB; if something remains, one block that begins with it; the identity block.
struct StoredTensor {
  std::uint32_t drive = 0;
  Extent extent;
  IdentityBlock identity;

  std::uint64_t bytes() const noexcept { return identity.bytes; }
  std::uint64_t body_bytes() const noexcept { return align_down_block(identity.bytes); }
  std::uint64_t tail_bytes() const noexcept { return identity.bytes - body_bytes(); }
  /// The tail's block, if any, and the identity block.
  std::uint64_t trailer_bytes() const noexcept {
    return (tail_bytes() > 0 ? IdentityBlock::kBytes : 0) + IdentityBlock::kBytes;
  }

 private:
  static constexpr std::uint64_t align_down_block(std::uint64_t bytes) noexcept {
    return bytes & ~(IdentityBlock::kBytes - 1);
  }
};

/// The drives of one namespace and the space on them: one unlinked file a path, grown as needed,
/// space reserved before it is promised. A tensor lies whole on one drive; drives are filled in
/// proportion to their weights. Moves no bytes itself (StoreTransfer does). Thread-safe.
class SwapStore {
 public:
  /// Opens a scratch file in every path. Errors: no path given; errno and the path that refused.
  /// `system` outlives the store.
  static Result<std::unique_ptr<SwapStore>> open_scratch(const std::vector<PathConfig>& paths,
                                                         FileSystem& system = os_file_system());

  /// Space for the next generation of a tensor, never over an older one. Tries the drives in turn
  /// when one is full. Errors: ENOSPC (or what the last drive said) with path, and what is free
  /// there.
  Result<StoredTensor> reserve(std::uint64_t tensor, std::uint64_t generation, std::uint64_t bytes);
  /// Gives an extent's space back.
  void release(const StoredTensor& stored);

  const File& file(const StoredTensor& stored) const { return drives_[stored.drive]->file; }
  std::uint64_t used_bytes() const;

 private:
  struct Drive {
    Drive(File opened, const PathConfig& config);
    File file;
    std::uint64_t max_bytes;
    double weight;
    ExtentAllocator space;  // guarded by SwapStore::mutex_
  };

  explicit SwapStore(FileSystem& system);
  Result<Extent> reserve_on(Drive& drive, std::uint64_t bytes);
  std::string describe_free_space(const std::string& path) const;
  std::vector<std::size_t> drives_by_fill() const;

  FileSystem& system_;
  std::uint64_t number_;  // random; tells this opening's bytes from any other's
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Drive>> drives_;
};

}  // namespace penstock
