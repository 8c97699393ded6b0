#pragma once

#include <memory>

#include "swap/engine/engine_part.h"
#include "swap/engine/locked.h"
#include "swap/engine/writing.h"
#include "swap/schedule/prefetch_scheduler.h"

namespace penstock {

/// Contents that are to be written: what is known of each, and that it counts as in flight. Writer
/// sends them when the lock is released. With the engine's lock.
class WriteQueue : private EnginePart {
 public:
  WriteQueue(EngineState& state, PrefetchScheduler& scheduler)
      : EnginePart(state), scheduler_(scheduler) {}

  /// All that a write of the tensor needs to know and can know beforehand.
  WritingPtr make(const TensorRecord& record, std::shared_ptr<TicketState> ticket) const
      PENSTOCK_NEEDS_LOCK;
  /// What would be lost, were the newest content to come and fail.
  static OlderContent older_content(const TensorRecord& record) PENSTOCK_NEEDS_LOCK;
  /// What memory holds of the tensor is no longer its content; it comes back should the next one
  /// fail, where no drive has it.
  void replace(TensorRecord& record, Writing& writing, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  /// The tensor has a new content. `takes_slot`: it was made in a slot that no content held.
  void note_rewrite(TensorRecord& record, bool takes_slot) noexcept PENSTOCK_NEEDS_LOCK;

  /// Writes what memory holds of the tensor.
  void write_memory(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
  /// Sends one content on its way. Whatever goes wrong, Writer::finished() says it.
  void begin(WritingPtr writing, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  /// The content is to come from a device to `writing.block` first. Gets wait for it as for a read.
  void begin_arrival(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;

 private:
  PrefetchScheduler& scheduler_ PENSTOCK_GUARDED;
};

}  // namespace penstock
