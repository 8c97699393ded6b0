#pragma once

#include <memory>
#include <optional>

#include "swap/engine/engine_part.h"
#include "swap/engine/write_failures.h"
#include "swap/engine/write_queue.h"

namespace penstock {

/// What becomes of contents that no drive takes: RAM, or an error that leaves the last good copy.
class WriteRescue : private EnginePart {
 public:
  WriteRescue(EngineState& state, WriteQueue& writes, WriteFailures& failures)
      : EnginePart(state), writes_(writes), failures_(failures) {}

  /// A drive refused, or memory was short. The newest content stays in memory where it is in ours,
  /// and the last one on a drive stays readable otherwise. The error goes to what waits for the
  /// write, else it is said at the next call; of a row of failures the first.
  void fail(TensorRecord* record, Writing& writing, Error error, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
  /// Full drive: within ram_bytes the content stays in RAM instead. Claims the room.
  bool may_stay_in_ram(const Writing& writing, const Error& error) noexcept PENSTOCK_NEEDS_LOCK;
  /// With that claim, which it gives up where it returns false. `copy` has the content's bytes.
  bool keep_in_ram(const Writing& writing, const Error& error, Result<std::shared_ptr<Block>> copy,
                   Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  /// Full drive: within ram_bytes a device's content comes to RAM instead. Without the lock. Where
  /// it throws, nothing has changed.
  bool arrive_instead(const WritingPtr& writing, const Error& error);

 private:
  void describe(const TensorRecord* record, const Writing& writing, Error& error) const
      PENSTOCK_NEEDS_LOCK;
  void bring_back(TensorRecord& record, const Writing& writing) noexcept PENSTOCK_NEEDS_LOCK;
  void bring_to_ram(const Writing& writing, std::shared_ptr<Block> copy, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
  bool claim_for_newest(const Writing& writing) PENSTOCK_NEEDS_LOCK;
  void give_up_claim(const Writing& writing) PENSTOCK_NEEDS_LOCK;
  void say_kept(const Error& error) const noexcept;

  WriteQueue& writes_;
  WriteFailures& failures_ PENSTOCK_GUARDED;
};

}  // namespace penstock
