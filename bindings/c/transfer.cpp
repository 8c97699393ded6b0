// Contents on their way in and out: each operation in two forms, of which the blocking one waits
// for the other's ticket.

#include <utility>

#include "bindings/c/handles.h"
#include "bindings/c/last_error.h"

namespace penstock::c {
namespace {

Result<Ticket> begin_put(penstock_engine* engine, const char* name, const void* data,
                         std::size_t bytes) {
  const Result<NamedTensor> tensor = find_tensor(engine, name);
  PENSTOCK_TRY(tensor);
  PENSTOCK_TRY(required(data, "the data"));
  return tensor->engine->swap->put(tensor->id, {static_cast<const std::byte*>(data), bytes});
}

Result<Ticket> begin_get_into(penstock_engine* engine, const char* name, void* target,
                              std::size_t bytes) {
  const Result<NamedTensor> tensor = find_tensor(engine, name);
  PENSTOCK_TRY(tensor);
  PENSTOCK_TRY(required(target, "the target"));
  return tensor->engine->swap->get_into(tensor->id, {static_cast<std::byte*>(target), bytes});
}

Result<Access> read_access(int access) {
  if (access != PENSTOCK_READ && access != PENSTOCK_UPDATE) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("access is {}: PENSTOCK_READ or PENSTOCK_UPDATE", access));
  }
  return access == PENSTOCK_READ ? Access::kRead : Access::kUpdate;
}

Result<Ticket> begin_get(penstock_engine* engine, const char* name, Access access) {
  const Result<NamedTensor> tensor = find_tensor(engine, name);
  PENSTOCK_TRY(tensor);
  return tensor->engine->swap->get(tensor->id, access);
}

Result<Ticket> begin_commit(penstock_engine* engine, penstock_lease* lease) {
  const Result<std::shared_ptr<OpenEngine>> open = engines().find(engine);
  PENSTOCK_TRY(open);
  const Result<std::shared_ptr<HeldLease>> held = leases().find(lease);
  PENSTOCK_TRY(held);
  if ((*held)->engine != engine) {
    return fault(Fault::kInvalidArgument, "this lease is another engine's");
  }
  if ((*held)->access != Access::kUpdate) {
    return fault(Fault::kInvalidArgument,
                 "this lease was taken for reading: get with PENSTOCK_UPDATE to change a content");
  }
  PENSTOCK_TRY(find_tensor(engine, (*held)->tensor.c_str()));  // it may have been forgotten
  return (*open)->swap->commit((*held)->lease);
}

// A place for a handle that a function gives: there, and NULL until it does.
template <class Handle>
Result<void> clear(Handle** place, std::string_view what) {
  PENSTOCK_TRY(required(place, what));
  *place = nullptr;
  return {};
}

// Gives the ticket of an operation that `begin` begins.
template <class Begin>
int begun(penstock_engine* engine, penstock_ticket** ticket, std::optional<Access> access,
          const char* tensor, Begin begin) {
  return guarded([&]() -> Result<void> {
    PENSTOCK_TRY(clear(ticket, "the place for the ticket"));
    Result<Ticket> operation = begin();
    PENSTOCK_TRY(operation);
    *ticket = tickets().add(std::make_shared<BegunOperation>(
        BegunOperation{*std::move(operation), access, engine, tensor}));
    return {};
  });
}

// Waits for the operation that `begin` begins.
template <class Begin>
int done(Begin begin) {
  return guarded([&]() -> Result<void> {
    const Result<Ticket> operation = begin();
    PENSTOCK_TRY(operation);
    return operation->wait();
  });
}

}  // namespace
}  // namespace penstock::c

using namespace penstock;
using namespace penstock::c;

int penstock_put(penstock_engine* engine, const char* name, const void* data, size_t bytes) {
  return done([&] { return begin_put(engine, name, data, bytes); });
}

int penstock_put_async(penstock_engine* engine, const char* name, const void* data, size_t bytes,
                       penstock_ticket** ticket) {
  return begun(engine, ticket, std::nullopt, "",
               [&] { return begin_put(engine, name, data, bytes); });
}

int penstock_get_into(penstock_engine* engine, const char* name, void* target, size_t bytes) {
  return done([&] { return begin_get_into(engine, name, target, bytes); });
}

int penstock_get_into_async(penstock_engine* engine, const char* name, void* target, size_t bytes,
                            penstock_ticket** ticket) {
  return begun(engine, ticket, std::nullopt, "",
               [&] { return begin_get_into(engine, name, target, bytes); });
}

int penstock_commit(penstock_engine* engine, penstock_lease* lease) {
  return done([&] { return begin_commit(engine, lease); });
}

int penstock_commit_async(penstock_engine* engine, penstock_lease* lease,
                          penstock_ticket** ticket) {
  return begun(engine, ticket, std::nullopt, "", [&] { return begin_commit(engine, lease); });
}

int penstock_get(penstock_engine* engine, const char* name, int access, penstock_lease** lease) {
  return guarded([&]() -> Result<void> {
    PENSTOCK_TRY(clear(lease, "the place for the lease"));
    const Result<Access> wanted = read_access(access);
    PENSTOCK_TRY(wanted);
    const Result<Ticket> operation = begin_get(engine, name, *wanted);
    PENSTOCK_TRY(operation);
    Result<Lease> got = operation->lease();
    PENSTOCK_TRY(got);
    *lease = leases().add(
        std::make_shared<HeldLease>(HeldLease{*std::move(got), *wanted, engine, name}));
    return {};
  });
}

int penstock_get_async(penstock_engine* engine, const char* name, int access,
                       penstock_ticket** ticket) {
  const Result<Access> wanted = read_access(access);
  return begun(engine, ticket, wanted ? std::optional(*wanted) : std::nullopt,
               name != nullptr ? name : "", [&]() -> Result<Ticket> {
                 PENSTOCK_TRY(wanted);
                 return begin_get(engine, name, *wanted);
               });
}

int penstock_allocate(penstock_engine* engine, const char* name, penstock_lease** lease) {
  return guarded([&]() -> Result<void> {
    PENSTOCK_TRY(clear(lease, "the place for the lease"));
    const Result<NamedTensor> tensor = find_tensor(engine, name);
    PENSTOCK_TRY(tensor);
    Result<Lease> got = tensor->engine->swap->allocate(tensor->id);
    PENSTOCK_TRY(got);
    *lease = leases().add(
        std::make_shared<HeldLease>(HeldLease{*std::move(got), Access::kUpdate, engine, name}));
    return {};
  });
}
