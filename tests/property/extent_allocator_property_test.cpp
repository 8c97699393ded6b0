#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/extent_allocator.h"
#include "tests/property/step.h"

namespace penstock {
namespace {

enum Kind : std::uint32_t { kAllocate, kRelease, kExtend };

/// The extents that are handed out.
using Held = std::map<std::uint64_t, std::uint64_t>;  // offset -> bytes

/// The free ranges that must be there if nothing is lost and neighbours are
/// merged.
std::vector<Extent> gaps(const Held& held, std::uint64_t capacity_bytes) {
  std::vector<Extent> free;
  std::uint64_t at = 0;
  for (const auto& [offset, bytes] : held) {
    if (offset > at) {
      free.push_back({at, offset - at});
    }
    at = offset + bytes;
  }
  if (capacity_bytes > at) {
    free.push_back({at, capacity_bytes - at});
  }
  return free;
}

void check_against(const ExtentAllocator& allocator, const Held& held) {
  std::uint64_t used = 0;
  for (const auto& [offset, bytes] : held) {
    used += bytes;
  }
  const std::vector<Extent> free = gaps(held, allocator.capacity_bytes());
  std::uint64_t largest = 0;
  std::uint64_t free_sum = 0;
  for (const Extent& gap : free) {
    largest = std::max(largest, gap.bytes);
    free_sum += gap.bytes;
  }
  RC_ASSERT(allocator.used_bytes() == used);
  RC_ASSERT(used + free_sum == allocator.capacity_bytes());
  RC_ASSERT(allocator.largest_free_bytes() == largest);
  const bool tail = !free.empty() && free.back().end() == allocator.capacity_bytes();
  RC_ASSERT(allocator.free_tail_bytes() == (tail ? free.back().bytes : 0));
}

void allocate(ExtentAllocator& allocator, Held& held, std::uint64_t bytes, std::uint64_t granule) {
  const std::uint64_t largest = allocator.largest_free_bytes();
  const std::uint64_t wanted = align_up(std::max<std::uint64_t>(bytes, 1), granule);
  const std::optional<Extent> extent = allocator.allocate(bytes);
  RC_ASSERT(extent.has_value() == (wanted <= largest));
  if (!extent) {
    return;
  }
  RC_ASSERT(extent->bytes == wanted);
  RC_ASSERT(is_aligned(extent->offset, granule));
  RC_ASSERT(extent->end() <= allocator.capacity_bytes());
  const auto [at, added] = held.emplace(extent->offset, extent->bytes);
  RC_ASSERT(added);
  RC_ASSERT((at == held.begin() || std::prev(at)->first + std::prev(at)->second <= extent->offset));
  RC_ASSERT((std::next(at) == held.end() || extent->end() <= std::next(at)->first));
}

RC_GTEST_PROP(ExtentAllocatorProperty, NeverOverlapsLosesNothingAndMergesNeighbours, ()) {
  const std::uint64_t granule = std::uint64_t{1} << *rc::gen::inRange(0, 13);
  const std::uint64_t capacity = *any_magnitude(std::uint64_t{1} << 40);
  ExtentAllocator allocator(capacity, granule);
  Held held;
  for (const Step& step : *steps({kAllocate, kAllocate, kAllocate, kRelease, kRelease, kExtend},
                                 any_magnitude(std::max<std::uint64_t>(capacity / 4, 2)))) {
    if (step.kind == kAllocate) {
      allocate(allocator, held, step.amount, granule);
    } else if (step.kind == kRelease && !held.empty()) {
      const auto at = std::next(held.begin(), static_cast<std::ptrdiff_t>(step.pick % held.size()));
      allocator.release({at->first, at->second});
      held.erase(at);
    } else if (step.kind == kExtend) {
      allocator.extend(align_down(step.amount, granule));
    }
    check_against(allocator, held);
  }
  for (const auto& [offset, bytes] : held) {
    allocator.release({offset, bytes});
  }
  check_against(allocator, {});
}

}  // namespace
}  // namespace penstock
