#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/c/handle_table.h"
#include "bindings/c/penstock.h"
#include "swap/swap_engine.h"

namespace penstock::c {

/// What a penstock_engine stands for: an engine with one store.
struct OpenEngine {
  std::unique_ptr<SwapEngine> swap;
  NamespaceId space{};
};

/// What a penstock_lease stands for.
struct HeldLease {
  Lease lease;
  Access access = Access::kRead;
  const penstock_engine* engine = nullptr;  ///< who gave it
  std::string tensor;                       ///< its name
};

/// What a penstock_ticket stands for.
struct BegunOperation {
  Ticket ticket;
  std::optional<Access> access;  ///< of the lease that it promises; nothing: it promises none
  const penstock_engine* engine = nullptr;
  std::string tensor;  ///< the name; empty where it promises no lease
};

HandleTable<penstock_engine, OpenEngine>& engines();
HandleTable<penstock_lease, HeldLease>& leases();
HandleTable<penstock_ticket, BegunOperation>& tickets();

/// A tensor by its name. Holds the engine's object alive.
struct NamedTensor {
  std::shared_ptr<OpenEngine> engine;
  TensorId id{};
};
/// Errors: as HandleTable::find; no name; Fault::kUnknownTensor.
Result<NamedTensor> find_tensor(const penstock_engine* engine, const char* name);

/// Errors: `pointer` is NULL; `what` names it.
template <class Pointee>
Result<void> required(Pointee* pointer, std::string_view what) {
  if (pointer == nullptr) {
    return fault(Fault::kInvalidArgument, fmt::format("a null pointer is given for {}", what));
  }
  return {};
}
/// A text that must be there. Errors: it is NULL or empty; `what` names it.
Result<std::string> required_text(const char* text, std::string_view what);

}  // namespace penstock::c
