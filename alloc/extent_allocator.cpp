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
    insert_free({0, capacity_bytes_}, make_nodes());
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
  const bool leaves_rest = hole.bytes > size_bytes;
  // All that can fail for want of memory, while nothing has changed.
  Nodes spare = leaves_rest ? make_nodes() : Nodes{};
  const auto used = used_by_offset_.try_emplace(hole.offset).first;
  used->second = {size_bytes, take_free(free_by_offset_.find(hole.offset))};
  if (leaves_rest) {
    insert_free({hole.offset + size_bytes, hole.bytes - size_bytes}, std::move(spare));
  }
  used_bytes_ += size_bytes;
  return Extent{hole.offset, size_bytes};
}

void ExtentAllocator::release(Extent extent) noexcept {
  const auto used = used_by_offset_.find(extent.offset);
  PENSTOCK_CHECK(used != used_by_offset_.end() && used->second.bytes == extent.bytes,
                 "released [{}, +{}), which is not allocated", extent.offset, extent.bytes);
  Nodes nodes = std::move(used->second.nodes);
  used_by_offset_.erase(used);
  used_bytes_ -= extent.bytes;
  insert_free(extent, std::move(nodes));
}

void ExtentAllocator::extend(std::uint64_t bytes) {
  PENSTOCK_CHECK(is_aligned(bytes, granule_bytes_), "{} bytes in granules of {}", bytes,
                 granule_bytes_);
  if (bytes != 0) {
    Nodes nodes = make_nodes();
    const std::uint64_t end = capacity_bytes_;
    capacity_bytes_ += bytes;
    insert_free({end, bytes}, std::move(nodes));
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

ExtentAllocator::Nodes ExtentAllocator::make_nodes() {
  Ranges range{{0, 0}};
  Sizes size{{0, 0}};
  return {range.extract(range.begin()), size.extract(size.begin())};
}

void ExtentAllocator::insert_free(Extent extent, Nodes nodes) noexcept {
  auto next = free_by_offset_.lower_bound(extent.offset);
  if (next != free_by_offset_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == extent.offset) {
      extent = {before->first, before->second + extent.bytes};
      take_free(before);
    }
  }
  if (next != free_by_offset_.end() && next->first == extent.end()) {
    extent.bytes += next->second;
    take_free(next);
  }
  nodes.by_offset.key() = extent.offset;
  nodes.by_offset.mapped() = extent.bytes;
  nodes.by_bytes.value() = {extent.bytes, extent.offset};
  free_by_offset_.insert(std::move(nodes.by_offset));
  free_by_bytes_.insert(std::move(nodes.by_bytes));
}

ExtentAllocator::Nodes ExtentAllocator::take_free(Ranges::iterator at) noexcept {
  const auto by_bytes = free_by_bytes_.find({at->second, at->first});
  return {free_by_offset_.extract(at), free_by_bytes_.extract(by_bytes)};
}

}  // namespace penstock
