#include "swap/ticket.h"

#include <chrono>
#include <utility>

#include "swap/ticket_state.h"

namespace penstock {

void TicketState::fulfil(std::optional<Error> error, Lease lease) {
  std::vector<std::function<void(const Ticket&)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
    lease_ = std::move(lease);
    done_ = true;
    callbacks.swap(callbacks_);
  }
  done_changed_.notify_all();
  const Ticket self(shared_from_this());
  for (auto& callback : callbacks) {
    callback(self);
  }
}

bool TicketState::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

bool TicketState::wait(std::optional<std::chrono::nanoseconds> timeout) const {
  std::optional<Waiting::Clock::time_point> deadline;
  const Waiting::Clock::time_point now = Waiting::Clock::now();
  if (timeout && *timeout < Waiting::Clock::time_point::max() - now) {
    deadline = now + *timeout;
  }
  Waiting asleep;
  Waiting& waiting = waiting_ ? *waiting_ : asleep;
  std::unique_lock lock(mutex_);
  return waiting.wait(lock, done_changed_, [this] { return done_; }, deadline);
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
  return std::exchange(lease_, {});
}

void TicketState::then(std::function<void(const Ticket&)> callback) {
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
  return state_->done();
}

Result<void> Ticket::wait() const {
  state_->wait(std::nullopt);
  if (state_->error()) {
    state_->note_error_told();
    return *state_->error();
  }
  return {};
}

std::optional<Result<void>> Ticket::wait_for(std::chrono::nanoseconds timeout) const {
  if (!state_->wait(timeout)) {
    return std::nullopt;
  }
  return wait();
}

Result<Lease> Ticket::lease() const {
  PENSTOCK_TRY(wait());
  return state_->take_lease();
}

void Ticket::then(std::function<void(const Ticket&)> callback) const {
  state_->then(std::move(callback));
}

}  // namespace penstock
