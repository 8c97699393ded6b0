#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "alloc/result.h"
#include "swap/engine/engine_context.h"
#include "swap/engine/tensor_record.h"
#include "swap/store/swap_store.h"
#include "swap/tensor.h"

namespace penstock {

/// The tensors that an engine knows, by number and by name, and the stores that they are of.
/// Guarded by the engine's lock.
class TensorTable {
 public:
  struct Namespace {
    std::string name;
    std::shared_ptr<SwapStore> store;
    std::unordered_map<std::string, TensorId> by_name;
  };
  using Namespaces = std::map<NamespaceId, Namespace>;
  using Records = std::unordered_map<TensorId, std::unique_ptr<TensorRecord>>;

  explicit TensorTable(const EngineContext& context) : context_(context) {}

  NamespaceId open(std::string name, std::shared_ptr<SwapStore> store);
  /// Null: there is none.
  Namespace* namespace_of(NamespaceId space);
  const Namespaces& namespaces() const noexcept { return namespaces_; }
  void close(NamespaceId space) noexcept { namespaces_.erase(space); }
  const std::shared_ptr<SwapStore>& store_of(const TensorRecord& record) const {
    return namespaces_.at(record.space).store;
  }

  /// To a namespace that is there; no tensor of it has the name.
  TensorRecord& add(NamespaceId space, TensorInfo info) PENSTOCK_NEEDS_LOCK;
  /// Errors: as SwapEngine::rename()'s.
  Result<void> rename(TensorRecord& record, std::string name) PENSTOCK_NEEDS_LOCK;
  /// The name is free again. The record stays.
  void free_name(const TensorRecord& record) noexcept PENSTOCK_NEEDS_LOCK;
  void erase(TensorRecord& record) noexcept PENSTOCK_NEEDS_LOCK { records_.erase(record.id); }

  /// Null: it was never declared, or is forgotten.
  TensorRecord* record_of(TensorId tensor) const;
  const Records& records() const noexcept { return records_; }
  /// All of them, as they were declared.
  std::vector<TensorRecord*> in_order() const;
  std::optional<TensorId> find(NamespaceId space, const std::string& name) const;
  /// Of one namespace, in natural order of their names.
  std::vector<TensorId> tensors(NamespaceId space) const PENSTOCK_NEEDS_LOCK;
  /// A content has reached `store`, and its tensor has gone. Why it will not be found there: the
  /// namespace was closed meanwhile, and the store outlives it. Else nothing.
  std::optional<Error> came_too_late(const SwapStore& store, const TensorInfo& info) const noexcept
      PENSTOCK_NEEDS_LOCK;
  /// Why record_of() is null, or the engine closed.
  Error unknown(TensorId tensor) const PENSTOCK_NEEDS_LOCK;

 private:
  void find_rule(TensorRecord& record) const PENSTOCK_NEEDS_LOCK;

  const EngineContext& context_;
  Namespaces namespaces_;
  Records records_;
  std::uint64_t next_tensor_ = 1;
  std::uint32_t next_namespace_ = 1;
};

}  // namespace penstock
