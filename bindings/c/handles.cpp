#include "bindings/c/handles.h"

#include <pthread.h>

#include <string>

#include "alloc/excerpt.h"

namespace penstock::c {
namespace {

// Never destroyed: calls may come while the process ends, from destructors and other threads.
template <class Table>
Table& immortal(HandleWords words, std::uintptr_t kind) {
  return *std::make_unique<Table>(words, kind).release();
}

void lock_tables() noexcept {
  engines().lock_for_fork();
  leases().lock_for_fork();
  tickets().lock_for_fork();
}

void unlock_tables() noexcept {
  tickets().unlock_after_fork();
  leases().unlock_after_fork();
  engines().unlock_after_fork();
}

// A child made by fork() may open an engine of its own. Without memory it may find a table locked.
[[maybe_unused]] const int kForkHandlers =
    ::pthread_atfork(lock_tables, unlock_tables, unlock_tables);

}  // namespace

HandleTable<penstock_engine, OpenEngine>& engines() {
  using Table = HandleTable<penstock_engine, OpenEngine>;
  static Table& table = immortal<Table>({"engine", "is closed"}, 1);
  return table;
}

HandleTable<penstock_lease, HeldLease>& leases() {
  using Table = HandleTable<penstock_lease, HeldLease>;
  static Table& table = immortal<Table>({"lease", "was released"}, 2);
  return table;
}

HandleTable<penstock_ticket, BegunOperation>& tickets() {
  using Table = HandleTable<penstock_ticket, BegunOperation>;
  static Table& table = immortal<Table>({"ticket", "was dropped"}, 3);
  return table;
}

Result<std::string> required_text(const char* text, std::string_view what) {
  PENSTOCK_TRY(required(text, what));
  if (*text == '\0') {
    return fault(Fault::kInvalidArgument, fmt::format("{} is empty", what));
  }
  return std::string(text);
}

Result<NamedTensor> find_tensor(const penstock_engine* engine, const char* name) {
  Result<std::shared_ptr<OpenEngine>> open = engines().find(engine);
  PENSTOCK_TRY(open);
  const Result<std::string> known_as = required_text(name, "the tensor's name");
  PENSTOCK_TRY(known_as);
  const std::optional<TensorId> tensor = (*open)->swap->find((*open)->space, *known_as);
  if (!tensor) {
    PENSTOCK_TRY((*open)->swap->usable());  // a closed engine has none, nor has a fork's child
    Error error =
        fault(Fault::kUnknownTensor,
              fmt::format("there is no tensor '{}': declare it first", excerpt(*known_as)));
    error.tensor = *known_as;
    return error;
  }
  return NamedTensor{*std::move(open), *tensor};
}

}  // namespace penstock::c
