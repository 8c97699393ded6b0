#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "swap/engine/engine_memory.h"
#include "swap/engine/locked.h"
#include "swap/engine/tensor_table.h"

namespace penstock {

/// What callers say of tensors, and ask: declared, renamed, forgotten. See SwapEngine. Thread-safe
/// but for the last three, which need the lock.
class Declarations {
 public:
  Declarations(EngineContext& context, TensorTable& table, EngineMemory& memory)
      : context_(context), table_(table), memory_(memory) {}

  Result<TensorId> declare(NamespaceId space, TensorInfo info, bool to_put);
  Result<void> forget(TensorId tensor);
  Result<void> rename(TensorId tensor, std::string name);
  Result<void> set_trained(TensorId tensor, bool is_trained);
  Result<TensorInfo> info(TensorId tensor) const;
  Result<TensorState> state(TensorId tensor) const;
  std::optional<TensorId> find(NamespaceId space, const std::string& name) const;
  std::vector<TensorId> tensors(NamespaceId space) const;

  /// Gets that wait for the tensor end with an error.
  void erase(TensorRecord& record, Locked& locked) noexcept;
  /// Of a tensor whose first put has failed; nothing where there is a content or one may come.
  void undo(TensorId tensor, Locked& locked) noexcept;
  static void fail_reads(TensorRecord& record, const Error& error, Locked& locked) noexcept;

 private:
  EngineContext& context_;
  TensorTable& table_;
  EngineMemory& memory_;
};

}  // namespace penstock
