#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "alloc/memory_source.h"

namespace penstock {

/// Pageable memory whose pieces lie in the same order in every run, one behind the other in one
/// region of addresses: code that chooses by address chooses the same again. For simulations. Pages
/// come with their first touch and go when they are given back; addresses are never used twice.
class RegionSource final : public MemorySource {
 public:
  /// Where `region_bytes` of addresses cannot be had (`ulimit -v`, the thread sanitizer) half as
  /// many, and so on. Errors: not even 64 GiB, or what was asked for if that is less.
  static Result<std::shared_ptr<RegionSource>> make(std::uint64_t region_bytes = kRegionBytes);
  /// Owns the region, which begins at a huge page and cannot be touched yet.
  RegionSource(std::byte* region, std::uint64_t region_bytes)
      : region_(region), region_bytes_(region_bytes) {}
  ~RegionSource() override;

  Result<Memory> allocate(std::uint64_t bytes) override;
  std::string_view name() const noexcept override { return "region"; }
  bool divisible() const noexcept override { return true; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override;

 private:
  static constexpr std::uint64_t kRegionBytes = std::uint64_t{4} << 40;
  static constexpr std::uint64_t kRegionBytesMin = std::uint64_t{64} << 30;

  std::byte* const region_;
  const std::uint64_t region_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};  // from the region's begin
};

}  // namespace penstock
