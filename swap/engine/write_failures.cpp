#include "swap/engine/write_failures.h"

#include <utility>

#include "alloc/out_of_memory.h"

namespace penstock {

void WriteFailures::note(const Error& error, std::shared_ptr<TicketState> ticket) noexcept {
  if (!is_pending() && !is_known_) {
    first_ = {copy_of(error), std::move(ticket)};
  }
}

bool WriteFailures::is_pending() {
  if (first_ && first_->ticket && first_->ticket->error_reported()) {
    first_.reset();
    is_known_ = true;
  }
  return first_.has_value();
}

Result<void> WriteFailures::take() {
  if (!is_pending()) {
    return {};
  }
  is_known_ = true;
  return std::exchange(first_, std::nullopt)->error;
}

}  // namespace penstock
