#pragma once

#include <memory>
#include <vector>

#include "alloc/result.h"
#include "swap/engine/ticket_state.h"
#include "swap/store/swap_store.h"

namespace penstock {

/// Failed writes until a caller knows of them: by their tickets, or by the next call that says so.
/// That says the first of all that there are then. Guarded by the engine's lock.
class WriteFailures {
 public:
  WriteFailures() { unknown_.reserve(1); }
  /// Of a write to `store`. `ticket` is what the error goes to, too; may be null.
  void note(const Error& error, std::shared_ptr<TicketState> ticket,
            const std::shared_ptr<SwapStore>& store) noexcept;
  /// Errors: the first failure that no caller knows of; all of them are known from here on.
  Result<void> take();
  /// The same of one store's: those of others stay for the next call.
  Result<void> take_of(const std::shared_ptr<SwapStore>& store);

 private:
  struct Failure {
    Error error;
    std::shared_ptr<TicketState> ticket;
    std::weak_ptr<SwapStore> store;  // not held: its files go with its namespace
    bool may_be_said_by_ticket() const noexcept { return ticket && ticket.use_count() > 1; }
  };
  static bool is_of(const Failure& failure, const std::shared_ptr<SwapStore>& store) noexcept;
  void drop_known() noexcept;

  // In their order, of each store at most one that no ticket can say any more.
  std::vector<Failure> unknown_;
};

}  // namespace penstock
