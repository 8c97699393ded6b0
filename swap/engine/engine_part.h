#pragma once

#include "swap/engine/engine_context.h"
#include "swap/engine/engine_memory.h"
#include "swap/engine/tensor_table.h"

namespace penstock {

/// What the parts of an engine share.
struct EngineState {
  EngineContext context;
  TensorTable table{context};
  EngineMemory memory{context};
};

/// A part that works on all of it.
class EnginePart {
 protected:
  explicit EnginePart(EngineState& state)
      : context_(state.context), table_(state.table), memory_(state.memory) {}
  ~EnginePart() = default;

  EngineContext& context_;
  TensorTable& table_ PENSTOCK_GUARDED;
  EngineMemory& memory_;
};

}  // namespace penstock
