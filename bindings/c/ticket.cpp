#include "swap/ticket.h"

#include <chrono>
#include <utility>

#include "bindings/c/handles.h"
#include "bindings/c/last_error.h"

using namespace penstock;
using namespace penstock::c;

namespace {

// Longer than any caller waits, and short enough to be added to any clock.
constexpr std::chrono::nanoseconds kForever = std::chrono::hours(24 * 365);

}  // namespace

int penstock_ticket_wait(penstock_ticket* ticket, int64_t timeout_ns) {
  bool pending = false;
  const int status = guarded([&]() -> Result<void> {
    const Result<std::shared_ptr<BegunOperation>> operation = tickets().find(ticket);
    PENSTOCK_TRY(operation);
    const std::chrono::nanoseconds timeout(timeout_ns);
    if (timeout_ns < 0 || timeout > kForever) {
      return (*operation)->ticket.wait();
    }
    const std::optional<Result<void>> done = (*operation)->ticket.wait_for(timeout);
    pending = !done.has_value();
    return done.value_or(Result<void>());
  });
  return pending ? fail(PENSTOCK_ERROR_PENDING, "the operation is still under way") : status;
}

int penstock_ticket_lease(penstock_ticket* ticket, penstock_lease** lease) {
  return guarded([&]() -> Result<void> {
    PENSTOCK_TRY(required(lease, "the place for the lease"));
    *lease = nullptr;
    const Result<std::shared_ptr<BegunOperation>> operation = tickets().find(ticket);
    PENSTOCK_TRY(operation);
    if (!(*operation)->access) {
      return fault(Fault::kInvalidArgument,
                   "this ticket stands for no penstock_get_async(), so that it has no lease");
    }
    Result<Lease> got = (*operation)->ticket.lease();
    PENSTOCK_TRY(got);
    *lease = leases().add(std::make_shared<HeldLease>(HeldLease{
        *std::move(got), *(*operation)->access, (*operation)->engine, (*operation)->tensor}));
    return {};
  });
}

int penstock_ticket_drop(penstock_ticket* ticket) {
  return guarded([&]() -> Result<void> {
    PENSTOCK_TRY(tickets().take(ticket));
    return {};
  });
}
