#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "alloc/memory_source.h"
#include "alloc/result.h"
#include "swap/transfer/identity_block.h"

namespace penstock {

/// What transfers are made of, kept for the next ones: in steady state a transfer allocates
/// nothing. Thread-safe.
class TransferMemory : public std::enable_shared_from_this<TransferMemory> {
 public:
  /// Blocks of 4 KiB at the end of a content: of its last bytes, and its identity.
  static constexpr std::uint64_t kTrailerBytes = 2 * IdentityBlock::kBytes;

  /// `trailers` gives those blocks; null where no transfer needs any.
  static std::shared_ptr<TransferMemory> make(std::shared_ptr<MemorySource> trailers = nullptr);
  explicit TransferMemory(std::shared_ptr<MemorySource> trailers);
  ~TransferMemory();
  TransferMemory(const TransferMemory&) = delete;
  TransferMemory& operator=(const TransferMemory&) = delete;

  /// An object that gives its memory back here, and holds this alive.
  template <class Object, class... Arguments>
  std::shared_ptr<Object> make_object(Arguments&&... arguments) {
    return std::allocate_shared<Object>(Allocator<Object>(shared_from_this()),
                                        std::forward<Arguments>(arguments)...);
  }

  /// kTrailerBytes. Errors: the source's.
  Result<Memory> take_trailer();
  void keep_trailer(Memory trailer) noexcept;

 private:
  template <class Object>
  struct Allocator {
    using value_type = Object;
    explicit Allocator(std::shared_ptr<TransferMemory> held) : memory(std::move(held)) {}
    template <class Other>
    Allocator(const Allocator<Other>& other) : memory(other.memory) {}

    Object* allocate(std::size_t count) {
      return static_cast<Object*>(memory->take(count * sizeof(Object), alignof(Object)));
    }
    void deallocate(Object* object, std::size_t count) noexcept {
      memory->keep(object, count * sizeof(Object), alignof(Object));
    }
    template <class Other>
    bool operator==(const Allocator<Other>& other) const noexcept {
      return memory == other.memory;
    }

    std::shared_ptr<TransferMemory> memory;
  };

  // Of one kind of object, linked.
  struct Spares {
    std::size_t bytes = 0;
    std::size_t alignment = 0;
    std::size_t count = 0;
    void* first = nullptr;
  };

  void* take(std::size_t bytes, std::size_t alignment);
  void keep(void* object, std::size_t bytes, std::size_t alignment) noexcept;
  Spares* spares_of(std::size_t bytes, std::size_t alignment) noexcept;

  const std::shared_ptr<MemorySource> trailers_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::array<Spares, 8> spares_;        // more kinds than there are of transfers
  std::vector<Memory> spare_trailers_;  // never more than were reserved
};

}  // namespace penstock
