#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "alloc/process_mark.h"
#include "alloc/waiting.h"
#include "swap/ticket.h"

namespace penstock {

/// The shared half of a Ticket: fulfilled once by the engine, waited for by any thread.
class TicketState : public std::enable_shared_from_this<TicketState> {
 public:
  /// `waiting`: how callers wait, and where the time goes that they do. Null: asleep, not counted.
  explicit TicketState(std::shared_ptr<Waiting> waiting = nullptr) : waiting_(std::move(waiting)) {}

  /// Once. Never with an engine's lock held: it runs callbacks.
  void fulfil(std::optional<Error> error, Lease lease) noexcept;
  /// The same in two steps: end_with() sets the result, with the engine's lock held; notify() wakes
  /// waiters and runs callbacks, without it.
  void end_with(std::optional<Error> error, Lease lease) noexcept;
  void notify() noexcept;
  /// Links those whose callbacks have not run yet.
  std::shared_ptr<TicketState> next_ended;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// A forked child's copy of what its parent waits for: it may never be done here.
  bool elsewhere() const noexcept { return process_.elsewhere(); }
  /// This thread runs a callback of some ticket, and must not wait for another.
  static bool in_callback() noexcept;
  /// False if `timeout` (nothing: for ever) passed first.
  bool wait(std::optional<std::chrono::nanoseconds> timeout) const;
  /// Valid once done.
  const std::optional<Error>& error() const noexcept { return error_; }
  /// Valid once done. Hands over the hold: the ticket keeps none, so that memory is free when
  /// the caller lets go, however long a ticket lives. Later calls share it while it lives.
  /// Empty: there was none. Errors: it was taken and has ended.
  Result<Lease> take_lease() const;
  /// `taken` is called with the lease when it is first taken. Before the caller has the ticket.
  void on_lease(std::function<void(const Lease&)> taken) { on_lease_ = std::move(taken); }
  /// An empty `callback` is none.
  void then(std::function<void(const Ticket&)> callback);

  /// Whether a caller has been given the error.
  bool error_reported() const noexcept { return error_reported_.load(); }
  void note_error_reported() const noexcept { error_reported_.store(true); }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable done_changed_;
  std::atomic<bool> done_{false};                              // set once, under mutex_
  std::optional<Error> error_;                                 // written before done_
  mutable Lease lease_;                                        // written before done_, then guarded
  mutable std::weak_ptr<LeaseToken> taken_;                    // guarded by mutex_
  mutable bool lease_taken_ = false;                           // guarded by mutex_
  std::vector<std::function<void(const Ticket&)>> callbacks_;  // guarded by mutex_
  std::function<void(const Lease&)> on_lease_;
  std::shared_ptr<Waiting> waiting_;
  mutable std::atomic<bool> error_reported_{false};
  ProcessMark process_;
};

/// Errors: `call`, which waits, in a ticket's callback. That may run on the I/O thread.
Result<void> not_in_a_callback(const char* call);

}  // namespace penstock
