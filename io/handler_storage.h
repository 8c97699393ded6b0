#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

namespace penstock {

/// Memory for one posted Asio handler at a time, so that posting in steady state allocates nothing.
/// The handler is allocated on the posting thread and freed on the running one, just before it
/// runs. A second handler, or one that is too large, comes from the heap.
class HandlerStorage {
 public:
  HandlerStorage() = default;
  HandlerStorage(const HandlerStorage&) = delete;
  HandlerStorage& operator=(const HandlerStorage&) = delete;

  void* allocate(std::size_t bytes) {
    if (bytes <= room_.size() && !taken_.exchange(true, std::memory_order_acquire)) {
      return room_.data();
    }
    return ::operator new(bytes);
  }
  void deallocate(void* address) noexcept {
    if (address == room_.data()) {
      taken_.store(false, std::memory_order_release);
    } else {
      ::operator delete(address);
    }
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, 256> room_{};
  std::atomic<bool> taken_{false};
};

/// The allocator to bind to such a handler (boost::asio::bind_allocator).
template <class T>
struct HandlerAllocator {
  using value_type = T;

  explicit HandlerAllocator(HandlerStorage& handler_storage) : storage(&handler_storage) {}
  template <class U>
  explicit(false) HandlerAllocator(const HandlerAllocator<U>& other) noexcept
      : storage(other.storage) {}

  T* allocate(std::size_t count) { return static_cast<T*>(storage->allocate(count * sizeof(T))); }
  void deallocate(T* address, std::size_t /*count*/) noexcept { storage->deallocate(address); }
  template <class U>
  bool operator==(const HandlerAllocator<U>& other) const noexcept {
    return storage == other.storage;
  }

  HandlerStorage* storage;
};

}  // namespace penstock
