#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "swap/engine/device_stagings.h"
#include "swap/engine/engine_part.h"
#include "swap/engine/lease_keeper.h"
#include "swap/engine/write_queue.h"
#include "swap/schedule/prefetch_scheduler.h"

namespace penstock {

/// Which memory for a tensor, or what to wait for: RAM within ram_bytes, a slot, what was read
/// ahead for later, pageable memory. Takes memory back when its last lease ends.
class MemoryBroker final : private EnginePart, public LeaseKeeper {
 public:
  MemoryBroker(EngineState& state, WriteQueue& writes, PrefetchScheduler& scheduler,
               const DeviceStagings& devices)
      : EnginePart(state), writes_(writes), scheduler_(scheduler), devices_(devices) {}

  /// Memory for one content, found in the order: resident (if the tensor may stay), a free slot, a
  /// slot of what was read ahead for the farthest future (not where retained pages would do), then
  /// the pool's ladder. Blocks; on the I/O thread, which must not wait for itself, the ladder is
  /// pageable memory at once. Without the lock, within an operation. Errors: the tensor is not
  /// known; no memory.
  Result<std::shared_ptr<Block>> obtain(TensorId tensor);
  /// The same, but null instead of a wait, as would_wait() says.
  Result<std::shared_ptr<Block>> obtain_now(TensorId tensor);
  /// Whether obtain() would wait now, for a slot or a write that will give one back.
  bool would_wait(std::uint64_t bytes);

  /// See EngineMemory; not on threads of ours.
  void provide_pages(const Block& block);

  // With the lock.

  /// Whether the tensor may stay in RAM; makes room by sending weaker claims to their drives.
  bool claim_residency(TensorRecord& record, Locked& locked) PENSTOCK_NEEDS_LOCK;
  /// Takes a resident's claim away and sends its content to a drive; while its holder changes it in
  /// place, that has to wait until the lease ends.
  void demote(TensorRecord& record, Locked& locked) PENSTOCK_NEEDS_LOCK;

  void lease_ended(LeaseToken& token) noexcept override;
  void update_ended(LeaseToken& token) noexcept override;

 private:
  void end_use(TensorRecord& record, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  std::shared_ptr<Block> free_slot(const TensorRecord& record, Locked& locked) PENSTOCK_NEEDS_LOCK;
  struct Found {
    std::shared_ptr<Block> block;  ///< null: the ladder is next
    std::uint64_t bytes = 0;
  };
  Result<Found> before_ladder(TensorId tensor);
  Result<std::shared_ptr<Block>> from_ladder(TensorId tensor, std::uint64_t bytes);
  std::optional<Buffer> take_over_ahead(const TensorRecord& taker, Locked& locked)
      PENSTOCK_NEEDS_LOCK;
  void wait_for_write_back(std::uint64_t bytes);
  bool awaits_write_back(std::uint64_t bytes) const PENSTOCK_NEEDS_LOCK;

  WriteQueue& writes_;
  PrefetchScheduler& scheduler_ PENSTOCK_GUARDED;
  const DeviceStagings& devices_;
};

}  // namespace penstock
