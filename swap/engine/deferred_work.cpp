#include "swap/engine/deferred_work.h"

namespace penstock {

void DeferredWork::fulfil(std::shared_ptr<TicketState> ticket, std::optional<Error> error,
                          Lease lease) noexcept {
  if (!ticket) {
    return;
  }
  ticket->end_with(std::move(error), std::move(lease));
  TicketState* const added = ticket.get();
  (last_ended_ == nullptr ? first_ended_ : last_ended_->next_ended) = std::move(ticket);
  last_ended_ = added;
}

void DeferredWork::send(WritingPtr writing) noexcept {
  Writing* const added = writing.get();
  (last_writing_ == nullptr ? first_writing_ : last_writing_->next) = std::move(writing);
  last_writing_ = added;
}

void DeferredWork::act(Worker& worker) noexcept {
  while (first_writing_) {
    WritingPtr writing = std::move(first_writing_);
    first_writing_ = std::move(writing->next);
    worker.send(std::move(writing));
  }
  blocks_.clear();
  extents_.clear();
  end_tickets();
  for (const FillRequest& request : fills_) {
    worker.fill(request);
  }
  for (CopyRequest& request : copies_) {
    worker.copy(std::move(request));
  }
  if (runs_ahead_) {
    worker.run_ahead();
  }
}

void DeferredWork::end_tickets() noexcept {
  while (first_ended_) {
    const std::shared_ptr<TicketState> ended = std::move(first_ended_);
    first_ended_ = std::move(ended->next_ended);
    ended->notify();
  }
}

}  // namespace penstock
