#pragma once

#include <memory>
#include <vector>

#include "alloc/result.h"
#include "swap/engine/ticket_state.h"

namespace penstock {

/// Failed writes until a caller knows of them: by their tickets, or by the next call that says so.
/// That says the first of all that there are then. Guarded by the engine's lock.
class WriteFailures {
 public:
  WriteFailures() { unknown_.reserve(1); }
  /// `ticket` is what the error goes to, too; may be null.
  void note(const Error& error, std::shared_ptr<TicketState> ticket) noexcept;
  /// Errors: the first failure that no caller knows of; all of them are known from here on.
  Result<void> take();

 private:
  struct Failure {
    Error error;
    std::shared_ptr<TicketState> ticket;
    bool may_be_said_by_ticket() const noexcept { return ticket && ticket.use_count() > 1; }
  };
  void drop_known() noexcept;

  std::vector<Failure> unknown_;  // in their order, at most one that no ticket can say any more
};

}  // namespace penstock
