#pragma once

#include <memory>
#include <optional>

#include "alloc/result.h"
#include "swap/engine/ticket_state.h"

namespace penstock {

/// The first of a row of failed writes, until a caller knows of it: by its ticket, or by the next
/// call that says so. Guarded by the engine's lock.
class WriteFailures {
 public:
  /// `ticket` is what the error goes to, too; may be null.
  void note(const Error& error, std::shared_ptr<TicketState> ticket) noexcept;
  /// A write has succeeded: what fails next is a row of its own.
  void note_success() noexcept { is_known_ = false; }
  /// Errors: the failure that no caller knows of; it is known from here on.
  Result<void> take();

 private:
  struct Failure {
    Error error;
    std::shared_ptr<TicketState> ticket;
  };
  bool is_pending();

  std::optional<Failure> first_;
  bool is_known_ = false;  // and no write has succeeded since
};

}  // namespace penstock
