#include "alloc/extent_allocator.h"

#include <algorithm>
#include <iterator>

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {

ExtentAllocator::ExtentAllocator(std::uint64_t capacity_bytes, std::uint64_t granule_bytes)
    : capacity_bytes_(align_down(capacity_bytes, granule_bytes)), granule_bytes_(granule_bytes) {
  PENSTOCK_CHECK(granule_bytes != 0 && (granule_bytes & (granule_bytes - 1)) == 0, "granule {}",
                 granule_bytes);
  if (capacity_bytes_ != 0) {
    insert_free({0, capacity_bytes_});
  }
}

std::optional<Extent> ExtentAllocator::allocate(std::uint64_t bytes) {
  if (bytes > capacity_bytes_) {
    return std::nullopt;  // also keeps the rounding below from wrapping around
  }
  const std::uint64_t size_bytes = align_up(std::max<std::uint64_t>(bytes, 1), granule_bytes_);
  const auto best = free_by_bytes_.lower_bound({size_bytes, 0});
  if (best == free_by_bytes_.end()) {
    return std::nullopt;
  }
  const Extent hole{best->second, best->first};
  erase_free(free_by_offset_.find(hole.offset));
  if (hole.bytes > size_bytes) {
    insert_free({hole.offset + size_bytes, hole.bytes - size_bytes});
  }
  used_by_offset_.emplace(hole.offset, size_bytes);
  used_bytes_ += size_bytes;
  return Extent{hole.offset, size_bytes};
}

void ExtentAllocator::release(Extent extent) {
  const auto used = used_by_offset_.find(extent.offset);
  PENSTOCK_CHECK(used != used_by_offset_.end() && used->second == extent.bytes,
                 "released [{}, +{}), which is not allocated", extent.offset, extent.bytes);
  used_by_offset_.erase(used);
  used_bytes_ -= extent.bytes;
  insert_free(extent);
}

void ExtentAllocator::extend(std::uint64_t bytes) {
  PENSTOCK_CHECK(is_aligned(bytes, granule_bytes_), "{} bytes in granules of {}", bytes,
                 granule_bytes_);
  if (bytes != 0) {
    const std::uint64_t end = capacity_bytes_;
    capacity_bytes_ += bytes;
    insert_free({end, bytes});
  }
}

std::uint64_t ExtentAllocator::largest_free_bytes() const noexcept {
  return free_by_bytes_.empty() ? 0 : free_by_bytes_.rbegin()->first;
}

std::uint64_t ExtentAllocator::free_tail_bytes() const noexcept {
  if (free_by_offset_.empty()) {
    return 0;
  }
  const auto& [offset, bytes] = *free_by_offset_.rbegin();
  return offset + bytes == capacity_bytes_ ? bytes : 0;
}

void ExtentAllocator::insert_free(Extent extent) {
  auto next = free_by_offset_.lower_bound(extent.offset);
  if (next != free_by_offset_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == extent.offset) {
      extent = {before->first, before->second + extent.bytes};
      erase_free(before);
    }
  }
  if (next != free_by_offset_.end() && next->first == extent.end()) {
    extent.bytes += next->second;
    erase_free(next);
  }
  free_by_offset_.emplace(extent.offset, extent.bytes);
  free_by_bytes_.emplace(extent.bytes, extent.offset);
}

void ExtentAllocator::erase_free(Ranges::iterator at) {
  free_by_bytes_.erase({at->second, at->first});
  free_by_offset_.erase(at);
}

}  // namespace penstock
