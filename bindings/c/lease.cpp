#include <utility>

#include "bindings/c/handles.h"
#include "bindings/c/last_error.h"

using namespace penstock;
using namespace penstock::c;

int penstock_lease_memory(penstock_lease* lease, void** data, size_t* bytes) {
  return guarded([&]() -> Result<void> {
    const Result<std::shared_ptr<HeldLease>> held = leases().find(lease);
    PENSTOCK_TRY(held);
    PENSTOCK_TRY((*held)->lease.check_held());
    if (data != nullptr) {
      *data = (*held)->lease.data();
    }
    if (bytes != nullptr) {
      *bytes = (*held)->lease.bytes();
    }
    return {};
  });
}

int penstock_release(penstock_lease* lease) {
  return guarded([&]() -> Result<void> {
    PENSTOCK_TRY(leases().take(lease));
    return {};
  });
}
