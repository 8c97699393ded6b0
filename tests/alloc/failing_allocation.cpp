#include "tests/alloc/failing_allocation.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> left{kNever};  // allocations before the one that is refused
std::atomic<bool> all_after{false};
std::atomic<bool> refused{false};

bool refuses() {
  if (left.load(std::memory_order_relaxed) == kNever) {
    return false;
  }
  const std::int64_t before = left.fetch_sub(1);
  const bool is_refused = before == 0 || (before < 0 && all_after);
  if (is_refused) {
    refused = true;
  }
  return is_refused;
}

void* allocate(std::size_t bytes) {
  return refuses() ? nullptr : std::malloc(bytes);
}
void* allocate(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return refuses() ? nullptr : std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void* or_throw(void* memory) {
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

// A file of its own, so that no compiler sees the malloc behind a `new`.
void* operator new(std::size_t bytes) {
  return or_throw(allocate(bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate(bytes, alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace penstock {

void refuse_allocation(std::uint64_t number, Refuse refuse) {
  refused = false;
  all_after = refuse == Refuse::kAllAfter;
  left = static_cast<std::int64_t>(number) - 1;
}

bool allow_allocations() {
  left = kNever;
  return refused.exchange(false);
}

}  // namespace penstock
