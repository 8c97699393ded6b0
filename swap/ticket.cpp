#include "swap/ticket.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>

#include "alloc/out_of_memory.h"
#include "swap/engine/ticket_state.h"
#include "swap/log.h"

namespace penstock {
namespace {

using Callback = std::function<void(const Ticket&)>;

thread_local std::uint32_t callbacks_running = 0;

/// No caller could catch an exception here: this may be the I/O thread.
void run(const Callback& callback, const Ticket& ticket) noexcept {
  ++callbacks_running;
  try {
    callback(ticket);
  } catch (const std::exception& error) {
    if_memory_allows([&error] {
      log_warning({WarningCode::kCallbackThrew,
                   fmt::format("a ticket's callback threw, which it must not: {}", error.what())});
    });
  } catch (...) {
    if_memory_allows([] {
      log_warning({WarningCode::kCallbackThrew, "a ticket's callback threw, which it must not"});
    });
  }
  --callbacks_running;
}

Error stands_for_nothing() {
  return fault(Fault::kInvalidArgument, "an empty ticket stands for no operation");
}

}  // namespace

bool TicketState::in_callback() noexcept {
  return callbacks_running > 0;
}

Result<void> not_in_a_callback(const char* call) {
  if (!TicketState::in_callback()) {
    return {};
  }
  return fault(
      Fault::kInvalidArgument,
      fmt::format("a ticket's callback cannot call {}, which waits for the I/O thread", call));
}

void TicketState::fulfil(std::optional<Error> error, Lease lease) noexcept {
  end_with(std::move(error), std::move(lease));
  notify();
}

void TicketState::end_with(std::optional<Error> error, Lease lease) noexcept {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  lease_ = std::move(lease);
}

void TicketState::notify() noexcept {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
    callbacks.swap(callbacks_);
  }
  done_changed_.notify_all();
  const Ticket self(shared_from_this());
  for (const Callback& callback : callbacks) {
    run(callback, self);
  }
}

bool TicketState::wait(std::optional<std::chrono::nanoseconds> timeout) const {
  if (done()) {
    return true;  // whose clock it was may be gone
  }
  Waiting asleep;
  Waiting& waiting = waiting_ ? *waiting_ : asleep;
  std::optional<Waiting::Clock::time_point> deadline;
  if (timeout) {
    const Waiting::Clock::time_point now = waiting.now();
    if (*timeout < Waiting::Clock::time_point::max() - now) {
      deadline = now + *timeout;
    }
  }
  std::unique_lock lock(mutex_);
  return waiting.wait(lock, done_changed_, [this] { return done(); }, deadline);
}

Result<Lease> TicketState::take_lease() const {
  std::lock_guard lock(mutex_);
  if (lease_taken_) {
    Lease shared(taken_.lock());
    if (!shared) {
      return fault(Fault::kInvalidArgument,
                   "this ticket's lease was taken and has ended: get again");
    }
    return shared;
  }
  lease_taken_ = static_cast<bool>(lease_);
  taken_ = lease_.token();
  if (on_lease_ && lease_) {
    on_lease_(lease_);
  }
  return std::exchange(lease_, {});
}

void TicketState::then(std::function<void(const Ticket&)> callback) {
  if (!callback) {
    return;
  }
  {
    std::lock_guard lock(mutex_);
    if (!done_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(Ticket(shared_from_this()));
}

Ticket Ticket::ready(Lease lease) {
  auto state = std::make_shared<TicketState>();
  state->fulfil(std::nullopt, std::move(lease));
  return Ticket(std::move(state));
}

Ticket Ticket::failed(Error error) {
  auto state = std::make_shared<TicketState>();
  state->fulfil(std::move(error), {});
  return Ticket(std::move(state));
}

bool Ticket::done() const {
  return !state_ || state_->done();
}

const Error* Ticket::error() const noexcept {
  return state_ && state_->done() && state_->error() ? &*state_->error() : nullptr;
}

/// Why waiting would never end, if so.
Result<void> Ticket::may_wait() const {
  if (!state_) {
    return stands_for_nothing();
  }
  if (!state_->done() && state_->elsewhere()) {
    return fault(Fault::kClosed,
                 "this ticket is of the process that forked this one: its operation ends there");
  }
  if (!state_->done() && TicketState::in_callback()) {
    return fault(Fault::kInvalidArgument,
                 "a ticket's callback cannot wait for a ticket: give it a callback, too");
  }
  return {};
}

Result<void> Ticket::wait() const {
  PENSTOCK_TRY(may_wait());
  state_->wait(std::nullopt);
  if (state_->error()) {
    state_->note_error_reported();
    return *state_->error();
  }
  return {};
}

std::optional<Result<void>> Ticket::wait_for(std::chrono::nanoseconds timeout) const {
  const Result<void> may = may_wait();
  if (may.has_value() && !state_->wait(timeout)) {
    return std::nullopt;
  }
  return may.has_error() ? may : wait();
}

Result<Lease> Ticket::lease() const {
  PENSTOCK_TRY(wait());
  if (state_->elsewhere()) {
    return fault(Fault::kClosed, "this lease is of the process that forked this one");
  }
  return state_->take_lease();
}

void Ticket::then(std::function<void(const Ticket&)> callback) const {
  if (state_) {
    state_->then(std::move(callback));
  } else if (callback) {
    callback(*this);
  }
}

}  // namespace penstock
