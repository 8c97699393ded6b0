#pragma once

#include <memory>
#include <optional>

#include "swap/engine/declarations.h"
#include "swap/engine/device_stagings.h"
#include "swap/engine/engine_part.h"
#include "swap/engine/reader.h"
#include "swap/engine/write_queue.h"
#include "swap/engine/write_rescue.h"

namespace penstock {

/// How contents go to drives: always beside the last good copy, published when whole. Without the
/// lock but where something else is said.
class Writer : private EnginePart {
 public:
  Writer(EngineState& state, Reader& reader, Declarations& declarations, WriteRescue& rescue,
         const DeviceStagings& devices)
      : EnginePart(state),
        reader_(reader),
        declarations_(declarations),
        rescue_(rescue),
        devices_(devices) {}

  /// Begins a write that WriteQueue has counted.
  void send(const WritingPtr& writing) noexcept;
  /// Errors: ENOSPC, with what it was for.
  Result<void> reserve_space(Writing& writing) const;
  /// A write has ended: published, taken by another drive or by RAM, or failed.
  void finished(const WritingPtr& writing, std::optional<Error> error) noexcept;

 private:
  Result<void> submit(const WritingPtr& writing);
  bool goes_elsewhere(const WritingPtr& writing, const Error& error) noexcept;
  bool write_elsewhere(const WritingPtr& writing, const Error& error);
  void conclude(Writing& writing, std::optional<Error> error) noexcept;
  void end(Writing& writing, std::optional<Error> error, bool is_kept, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
  void count(const Writing& writing) noexcept PENSTOCK_NEEDS_LOCK;
  std::optional<Error> stage(const TensorRecord& record, const Writing& writing) noexcept
      PENSTOCK_NEEDS_LOCK;
  void publish(TensorRecord& record, Writing& writing, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  void serve_after(TensorRecord& record, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;

  Reader& reader_;
  Declarations& declarations_;
  WriteRescue& rescue_;
  const DeviceStagings& devices_;
};

}  // namespace penstock
