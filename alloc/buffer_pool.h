#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/buffer.h"
#include "alloc/memory_source.h"
#include "alloc/result.h"
#include "alloc/waiting.h"

namespace penstock {

/// How many slots of which size the planner wants.
struct ClassPlan {
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  bool operator==(const ClassPlan&) const = default;
};

/// What BufferPool::shape() does where another thread is about it.
enum class IfShaped : std::uint8_t {
  kWait,
  kLeave,  ///< nothing: for a thread that the other one may be waiting for
};

struct BufferPoolOptions {
  /// Pinned memory, already limited to `max_pinned_bytes` (a LimitingSource somewhere in it).
  std::shared_ptr<MemorySource> pinned;
  /// Pageable memory for leases beyond the pool.
  std::shared_ptr<MemorySource> overflow;
  /// How acquire() waits for a slot to come back. Null: asleep.
  std::shared_ptr<Waiting> waiting = nullptr;
  /// What watch() asks for. Called by any thread, with locks of others held: it must not block.
  std::function<void()> changed = nullptr;
};

struct BufferPoolStats {
  std::uint64_t pinned_bytes = 0;         ///< arenas and dedicated buffers now
  std::uint64_t slot_bytes_live = 0;      ///< bytes asked for in slots and dedicated buffers now
  std::uint64_t slot_bytes_live_max = 0;  ///< the largest value of the same
  std::uint64_t overflow_bytes = 0;       ///< pageable bytes asked for and lent now
  std::uint64_t overflow_bytes_max = 0;
  std::uint64_t waits = 0;      ///< acquisitions that had to wait for a slot
  std::uint64_t overflows = 0;  ///< acquisitions that went to pageable memory
};

/// Slots of near-exact size classes in pinned arenas, with dedicated buffers for outliers and
/// pageable overflow beyond. Exhaustion is a state, not an error (the ladder of acquire()). Sizes
/// count in whole 4 KiB blocks: 100 bytes waste nothing of a 4 KiB slot. Thread-safe. Uncontended
/// try_acquire + release: no syscall, no allocation.
class BufferPool {
 public:
  explicit BufferPool(BufferPoolOptions options);
  /// Buffers still lent stay valid.
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Lays the pinned memory out anew. Slots that are lent keep their memory until they come back;
  /// an arena is freed when its last slot is back. Arenas that the new plan can use as they are,
  /// are kept. Classes need not be sorted. A class that the budget cannot hold beside what is still
  /// lent gets fewer slots, the largest class first, and grows when there is room and need.
  /// Errors: none of `plan` could be pinned.
  Result<void> shape(std::span<const ClassPlan> plan, IfShaped if_shaped = IfShaped::kWait);

  /// A free slot of the smallest class that holds `bytes` with at most 1/8 of the slot wasted.
  /// Never waits, never allocates, so that it may be called with any lock held.
  std::optional<Buffer> try_acquire_slot(std::uint64_t bytes);

  /// A free slot of the smallest class that holds `bytes` with at most 1/8 of the slot wasted, else
  /// a buffer of its own where the pinned budget has room for it; never waits, never overflows.
  std::optional<Buffer> try_acquire(std::uint64_t bytes);

  /// The whole ladder: a free slot -> in FIFO order the next one to come back, as long as one of
  /// that class is expected back (Buffer::expect_return) -> a new buffer within the pinned budget
  /// -> pageable overflow. Errors: the overflow source's, with what to raise.
  /// Blocks only while it waits for a return.
  Result<Buffer> acquire(std::uint64_t bytes);
  /// Whether acquire() would wait now: no slot is free, and one is expected back. What takes a slot
  /// or gives one back changes that at any time.
  bool would_wait(std::uint64_t bytes) const;
  /// BufferPoolOptions::changed is called once, when next a buffer has come back or one is not
  /// expected back any more. A caller that looks at would_wait() after this call misses nothing.
  void watch() const;

  /// Pageable memory at once, without looking at the pool.
  Result<Buffer> acquire_overflow(std::uint64_t bytes);

  /// Wakes every waiter; acquire() then skips the waiting rung for ever (shutdown).
  void stop_waiting();

  BufferPoolStats stats() const;
  std::vector<ClassPlan> shape() const;

 private:
  std::shared_ptr<BufferPoolState> state_;
};

}  // namespace penstock
