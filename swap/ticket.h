#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "alloc/result.h"
#include "swap/lease.h"

namespace penstock {

class TicketState;

/// An operation that has begun. Copyable; all members from any thread. An empty ticket is done and
/// an error. In a callback (then()) and in a forked child, a wait for an operation that is not done
/// is an error.
class Ticket {
 public:
  Ticket() = default;
  explicit Ticket(std::shared_ptr<TicketState> state) : state_(std::move(state)) {}
  /// A ticket that is done already.
  static Ticket ready(Lease lease = {});
  static Ticket failed(Error error);

  bool done() const;
  /// Why the operation failed, as long as a copy of the ticket lives; null: it has not, or is under
  /// way. It does not count as said: what check() returns of it comes all the same.
  const Error* error() const noexcept;
  /// Blocks until done. Errors: the operation's.
  Result<void> wait() const;
  /// Nothing if `timeout` passes first; the operation goes on.
  std::optional<Result<void>> wait_for(std::chrono::nanoseconds timeout) const;
  /// Blocks; the lease that get() promised, handed over: the ticket keeps no hold. Asked again, it
  /// is shared while it lives. Errors: the operation's; the lease was taken and has ended.
  Result<Lease> lease() const;
  /// Calls `callback` once when done: at once on this thread if it is done already, else on the I/O
  /// thread, where it must neither block nor throw (what it throws is logged and dropped).
  void then(std::function<void(const Ticket&)> callback) const;

  const std::shared_ptr<TicketState>& state() const noexcept { return state_; }

 private:
  Result<void> may_wait() const;

  std::shared_ptr<TicketState> state_;
};

}  // namespace penstock
