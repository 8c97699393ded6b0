#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "alloc/buffer.h"
#include "alloc/buffer_pool.h"
#include "alloc/memory_source.h"

// The private half of alloc/buffer_pool.h. Only the pool's own files include it.

namespace penstock {

struct BufferArena;

/// A piece of an arena that is lent as a whole. Guarded by the pool's lock, but for `arena` and
/// `data`, which never change.
struct BufferSlot {
  BufferArena* arena = nullptr;
  std::byte* data = nullptr;
  BufferSlot* next_free = nullptr;
  bool lent = false;
  bool returning = false;  // Buffer::expect_return was said
};

/// One allocation: many slots of one class, or a single dedicated or overflow buffer. One class an
/// arena, so that a new plan keeps or drops it whole.
struct BufferArena {
  /// Belongs to no class (any more): freed as soon as nothing of it is lent.
  static constexpr std::uint32_t kRetired = ~std::uint32_t{0};

  BufferArena(Memory memory_of_slots, BufferKind slot_kind, std::uint64_t bytes_per_slot,
              std::uint32_t slot_count);

  Memory memory;
  BufferKind kind;
  std::uint64_t slot_bytes;
  std::vector<BufferSlot> slots;  // never resized: leases point into it
  std::uint32_t class_index = kRetired;
  std::uint32_t lent = 0;
  std::list<BufferArena>::iterator self;  // its place in BufferPoolState::arenas_
};

/// What a BufferPool and its leases share; lives as long as the last of them.
///
/// Invariant: no slot is free while a waiter could use it. A later caller therefore finds none and
/// cannot overtake a waiter.
struct BufferPoolState {
  explicit BufferPoolState(BufferPoolOptions pool_options);

  /// The first rung of the ladder: a free slot, or null.
  BufferSlot* take_free(std::uint64_t bytes);
  /// The first rung and the second: the next slot to come back, as long as one is expected.
  BufferSlot* take_free_or_wait(std::uint64_t bytes);
  /// Whether the second would wait now.
  bool would_wait(std::uint64_t bytes);
  /// `options.changed` is to be called once, after the next change.
  void watch();
  /// The third: more pinned memory, as a slot of a class that has fewer than were planned, else as
  /// a dedicated buffer.
  Result<BufferSlot*> add_pinned(std::uint64_t bytes);
  /// The last: pageable memory.
  Result<BufferSlot*> add_overflow(std::uint64_t bytes);

  /// The handle of a slot of `state` that was taken; `bytes` were asked for.
  static Buffer lease(std::shared_ptr<BufferPoolState> state, BufferSlot& slot,
                      std::uint64_t bytes) noexcept;
  void give_back(BufferSlot& slot, std::uint64_t bytes) noexcept;
  void set_returning(BufferSlot& slot, bool returning) noexcept;

  /// BufferPool::shape. `plan` is ascending by slot_bytes, in whole blocks, without repetitions.
  Result<void> reshape(std::span<const ClassPlan> plan, IfShaped if_shaped);
  std::vector<ClassPlan> shape() const;
  BufferPoolStats stats() const;

  void stop_waiting();
  /// The end of the BufferPool: waiting is over, leases go on.
  void close();

 private:
  using Arenas = std::list<BufferArena>;
  /// Functions that take one need the lock held.
  using Lock = std::unique_lock<std::mutex>;

  struct SlotClass {
    std::uint64_t slot_bytes = 0;
    std::uint32_t slots_planned = 0;
    std::uint32_t slots = 0;      // less while the budget does not hold more
    std::uint32_t returning = 0;  // lent slots that are expected back
    BufferSlot* free = nullptr;   // the last one given back first: its cache lines are warm
  };

  // A thread that waits in acquire(); lives on that thread's stack.
  struct Waiter {
    std::uint64_t bytes = 0;
    BufferSlot* granted = nullptr;
    std::condition_variable wake;
  };

  std::span<SlotClass> fitting_classes(const Lock& lock, std::uint64_t bytes) noexcept;
  BufferSlot* pop_free(const Lock& lock, std::uint64_t bytes) noexcept;
  void push_free(const Lock& lock, BufferSlot& slot) noexcept;
  void serve_waiters(const Lock& lock) noexcept;
  bool return_expected(const Lock& lock, std::uint64_t bytes) noexcept;
  void mark_returning(const Lock& lock, BufferSlot& slot, bool returning) noexcept;
  // Without the lock.
  void report_change(bool is_watched) const noexcept;
  // Wakes the waiters to which no slot is expected to return.
  void wake_without_return(const Lock& lock) noexcept;
  void count_lease(const Lock& lock, const BufferSlot& slot, std::uint64_t bytes) noexcept;

  struct MissingSlot {
    std::uint32_t class_index = 0;
    std::uint64_t slot_bytes = 0;
  };
  std::optional<MissingSlot> missing_slot(std::uint64_t bytes);
  BufferSlot* add_missing_slot(std::uint64_t bytes);
  Result<BufferSlot*> add_single(std::uint64_t bytes, BufferKind kind);
  BufferSlot& take_fresh(const Lock& lock, BufferArena& arena, std::uint64_t bytes) noexcept;

  // Allocates an arena; it is not in arenas_ yet.
  Result<Arenas> make_arena(std::uint64_t slot_bytes, std::uint32_t slots, BufferKind kind);
  BufferArena& put_in(const Lock& lock, Arenas fresh) noexcept;
  // Moves an arena of which nothing is lent to `idle`, which is freed without the lock.
  void take_out(const Lock& lock, BufferArena& arena, Arenas& idle) noexcept;

  void adopt_arenas(const Lock& lock, std::span<const ClassPlan> plan, Arenas& idle);
  void adopt(const Lock& lock, BufferArena& arena, std::uint32_t class_index) noexcept;
  std::optional<Error> fill_class(std::uint32_t class_index, std::uint32_t missing);

  const BufferPoolOptions options_;
  const std::shared_ptr<Waiting> waiting_;
  std::mutex shape_mutex_;  // lets one thread at a time shape; taken before mutex_, never after it
  mutable std::mutex mutex_;

  // All below is guarded by mutex_.
  BufferPoolStats stats_;
  std::vector<SlotClass> classes_;  // ascending by slot_bytes
  Arenas arenas_;
  std::list<Waiter*> waiters_;  // first come first
  bool stopped_ = false;        // no thread may wait any more
  bool watched_ = false;        // the next change is to be reported
};

}  // namespace penstock
