#pragma once

#include <memory>
#include <span>

#include "swap/engine/engine_part.h"
#include "swap/engine/reader.h"
#include "swap/schedule/prefetch_scheduler.h"

namespace penstock {

/// How contents come from drives before they are asked for. Without the lock.
class AheadReader : private EnginePart {
 public:
  AheadReader(EngineState& state, Reader& reader, PrefetchScheduler& scheduler)
      : EnginePart(state), reader_(reader), scheduler_(scheduler) {}

  void prefetch(std::span<const TensorId> tensors);
  /// Begins what is worth reading now; called after everything that may have made room or extended
  /// what is known of the future.
  void run() noexcept;
  /// Finds memory in RAM for a read ahead that has begun otherwise. The content may have come from
  /// elsewhere, or be wanted by gets, or the tensor may be gone, when memory is found.
  void fill(const FillRequest& request) noexcept;

 private:
  class Environment;
  friend class Environment;

  Reader& reader_;
  PrefetchScheduler& scheduler_ PENSTOCK_GUARDED;
  TensorId skipped_ PENSTOCK_GUARDED{};  // that the log named last
};

}  // namespace penstock
