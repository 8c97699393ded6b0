#include "tests/alloc/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "tests/alloc/sanitizers.h"

namespace {
thread_local std::uint64_t allocations = 0;
std::atomic<std::uint64_t> all_allocations = 0;

void count_allocation() {
  ++allocations;
  all_allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

#if PENSTOCK_HAS_FEATURE(thread_sanitizer)
// Clang's has these operators to itself, but tells whenever anything is allocated.
#include <sanitizer/allocator_interface.h>

[[maybe_unused]] const int hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void* /*memory*/, std::size_t /*bytes*/) { count_allocation(); },
    [](const volatile void* /*memory*/) {});
#else
// A file of its own, so that no compiler sees the malloc behind a `new`.
void* operator new(std::size_t bytes) {
  count_allocation();
  if (void* memory = std::malloc(bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  count_allocation();
  return std::malloc(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  count_allocation();
  const auto boundary = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(boundary, (bytes + boundary - 1) / boundary * boundary)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
#endif

namespace penstock {

std::uint64_t allocations_of_this_thread() {
  return allocations;
}

std::uint64_t allocations_of_all_threads() {
  return all_allocations.load();
}

}  // namespace penstock
