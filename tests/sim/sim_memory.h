#pragma once

#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <optional>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "alloc/extent_allocator.h"
#include "alloc/memory_source.h"

namespace penstock {

/// Pageable memory whose pieces lie in the same order in every run: whoever chooses by address
/// chooses the same again. Where the machine puts its pages is another matter each time.
class SimMemory final : public MemorySource {
 public:
  SimMemory()
      : region_(::mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        space_(kRegionBytes - kHugePageBytes, kHugePageBytes) {
    PENSTOCK_CHECK(region_ != MAP_FAILED, "no room for {} bytes of addresses", kRegionBytes);
    first_ = reinterpret_cast<std::byte*>(
        align_up(reinterpret_cast<std::uintptr_t>(region_), kHugePageBytes));
  }
  ~SimMemory() override { ::munmap(region_, kRegionBytes); }

  Result<Memory> allocate(std::uint64_t bytes) override {
    Result<std::uint64_t> whole = whole_blocks(bytes);
    if (whole.has_error()) {
      return std::move(whole).error();
    }
    const std::lock_guard lock(mutex_);
    const std::optional<Extent> extent = space_.allocate(*whole + kHugePageBytes);
    if (!extent) {
      return fault(Fault::kExhausted, "the simulation's memory is used up");
    }
    return Memory(shared_from_this(), first_ + extent->offset, *whole);
  }
  std::string_view name() const noexcept override { return "simulated"; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    space_.release({static_cast<std::uint64_t>(data - first_),
                    align_up(bytes + kHugePageBytes, kHugePageBytes)});
  }

 private:
  static constexpr std::uint64_t kRegionBytes = 8 * kGiB;  // of addresses; few are ever touched

  void* region_;
  std::byte* first_;
  std::mutex mutex_;
  ExtentAllocator space_;  // guarded by mutex_
};

}  // namespace penstock
