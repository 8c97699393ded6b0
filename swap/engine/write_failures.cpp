#include "swap/engine/write_failures.h"

#include <algorithm>
#include <new>
#include <utility>

#include "alloc/out_of_memory.h"

namespace penstock {

/// Without a store it stands for failures of any.
bool WriteFailures::is_of(const Failure& failure,
                          const std::shared_ptr<SwapStore>& store) noexcept {
  const std::weak_ptr<SwapStore> any;
  const auto is_same = [&failure](const auto& other) {
    return !failure.store.owner_before(other) && !other.owner_before(failure.store);
  };
  return is_same(store) || is_same(any);
}

void WriteFailures::note(const Error& error, std::shared_ptr<TicketState> ticket,
                         const std::shared_ptr<SwapStore>& store) noexcept {
  drop_known();
  if (std::ranges::any_of(unknown_, [&store](const Failure& failure) {
        return is_of(failure, store) && !failure.may_be_said_by_ticket();
      })) {
    return;  // the next call says that one
  }
  try {
    unknown_.push_back({copy_of(error), std::move(ticket), store});
  } catch (const std::bad_alloc&) {  // not of the first one, which has room
    unknown_.front().ticket.reset();
    unknown_.front().store.reset();
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

Result<void> WriteFailures::take_of(const std::shared_ptr<SwapStore>& store) {
  drop_known();
  const auto is_its = [&store](const Failure& failure) { return is_of(failure, store); };
  const auto found = std::ranges::find_if(unknown_, is_its);
  if (found == unknown_.end()) {
    return {};
  }
  Error first = std::move(found->error);
  std::erase_if(unknown_, is_its);
  return first;
}

}  // namespace penstock
