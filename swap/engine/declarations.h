#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "swap/engine/engine_part.h"
#include "swap/engine/locked.h"

namespace penstock {

/// What callers say of tensors, and ask: declared, renamed, forgotten. See SwapEngine. Thread-safe
/// but for the last three, which need the lock.
class Declarations : private EnginePart {
 public:
  explicit Declarations(EngineState& state) : EnginePart(state) {}

  Result<void> usable() const;
  Result<TensorId> declare(NamespaceId space, TensorInfo info, bool to_put);
  Result<void> forget(TensorId tensor);
  Result<void> rename(TensorId tensor, std::string name);
  Result<void> set_trained(TensorId tensor, bool is_trained);
  Result<std::shared_ptr<const TensorInfo>> info(TensorId tensor) const;
  Result<TensorState> state(TensorId tensor) const;
  std::optional<TensorId> find(NamespaceId space, const std::string& name) const;
  std::vector<TensorId> tensors(NamespaceId space) const;

  /// Gets that wait for the tensor end with an error.
  void erase(TensorRecord& record, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  /// Of a tensor whose first put has failed; nothing where there is a content or one may come.
  void undo(TensorId tensor, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  static void fail_reads(TensorRecord& record, const Error& error, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
};

}  // namespace penstock
