#include "swap/engine/write_failures.h"

#include <algorithm>
#include <new>
#include <utility>

#include "alloc/out_of_memory.h"

namespace penstock {

void WriteFailures::note(const Error& error, std::shared_ptr<TicketState> ticket) noexcept {
  drop_known();
  if (std::ranges::any_of(
          unknown_, [](const Failure& failure) { return !failure.may_be_said_by_ticket(); })) {
    return;  // the next call says that one
  }
  try {
    unknown_.push_back({copy_of(error), std::move(ticket)});
  } catch (const std::bad_alloc&) {  // not of the first one, which has room
    unknown_.front().ticket.reset();
  }
}

void WriteFailures::drop_known() noexcept {
  std::erase_if(unknown_, [](const Failure& failure) {
    return failure.ticket && failure.ticket->error_reported();
  });
}

Result<void> WriteFailures::take() {
  drop_known();
  if (unknown_.empty()) {
    return {};
  }
  Error first = std::move(unknown_.front().error);
  unknown_.clear();
  return first;
}

}  // namespace penstock
