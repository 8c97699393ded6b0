#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "swap/engine/declarations.h"
#include "swap/engine/engine_part.h"
#include "swap/engine/planner.h"
#include "swap/engine/write_failures.h"
#include "swap/engine/write_queue.h"
#include "swap/store/durable_store.h"

namespace penstock {

/// Namespaces and their stores: opened, resumed, published, closed. See SwapEngine. Thread-safe.
class NamespaceSet : private EnginePart {
 public:
  NamespaceSet(EngineState& state, WriteQueue& writes, Declarations& declarations,
               WriteFailures& failures, Planner& planner)
      : EnginePart(state),
        writes_(writes),
        declarations_(declarations),
        failures_(failures),
        planner_(planner) {}

  Result<NamespaceId> open(std::string name, std::vector<PathConfig> paths);
  Result<void> close(NamespaceId space);
  Result<void> flush();
  Result<void> check();

  /// Contents of durable stores whose write has failed, and that nothing may be changing, try it
  /// once more.
  void write_again(Locked& locked) PENSTOCK_NEEDS_LOCK;
  /// After everything has been written that can be: publishes, and says what is not safe. `written`
  /// if that is an error already.
  Result<void> publish(Result<void> written);
  /// All records and namespaces go. Errors: as `written`, else the first of a store that closes.
  Result<void> drop_all(Result<void> written, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;

 private:
  Result<std::shared_ptr<SwapStore>> open_store(const std::vector<PathConfig>& paths) const;
  void await_writes();
  void run_loop_near(const std::vector<PathConfig>& paths);
  void resume(NamespaceId space, const DurableStore& store) PENSTOCK_NEEDS_LOCK;
  Result<std::shared_ptr<SwapStore>> begin_to_close(NamespaceId space);
  bool drop(NamespaceId space);
  void drop(NamespaceId space, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  bool is_kept_from_drive(const TensorRecord& record) const PENSTOCK_NEEDS_LOCK;
  std::optional<Error> kept_from_drives() const PENSTOCK_NEEDS_LOCK;

  WriteQueue& writes_;
  Declarations& declarations_;
  WriteFailures& failures_ PENSTOCK_GUARDED;
  Planner& planner_;
};

}  // namespace penstock
