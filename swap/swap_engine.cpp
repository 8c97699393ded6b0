#include "swap/swap_engine.h"

#include <fmt/format.h>

#include <exception>
#include <thread>
#include <utility>

#include "swap/swap_engine_core.h"
#include "swap/ticket_state.h"

namespace penstock {
namespace {

Error of_another_process() {
  return fault(Fault::kClosed,
               "the swap engine is of the process that forked this one, which must open its own");
}

Error not_in_a_callback(const char* call) {
  return fault(
      Fault::kInvalidArgument,
      fmt::format("a ticket's callback cannot call {}, which waits for other tickets", call));
}

}  // namespace

Result<std::unique_ptr<SwapEngine>> SwapEngine::open(SwapEngineOptions options) {
  Result<std::shared_ptr<SwapEngineCore>> core = SwapEngineCore::make(std::move(options));
  if (core.has_error()) {
    return std::move(core).error();
  }
  return std::unique_ptr<SwapEngine>(new SwapEngine(std::move(core).value()));
}

SwapEngine::SwapEngine(std::shared_ptr<SwapEngineCore> core) : core_(std::move(core)) {}

SwapEngine::~SwapEngine() {
  if (process_.elsewhere()) {
    // A forked child has neither the threads nor the locks to take this apart: it is left as it is.
    static_cast<void>(new std::shared_ptr<SwapEngineCore>(std::move(core_)));
  } else if (TicketState::in_callback()) {
    close_elsewhere();
  } else {
    (void)core_->close();
  }
}

/// Closing waits for the I/O thread, which this may be.
void SwapEngine::close_elsewhere() noexcept {
  try {
    std::thread([core = core_] { (void)core->close(); }).detach();
  } catch (const std::exception&) {
    // No thread to be had: the engine stays open, for nobody, until the process ends.
    static_cast<void>(new std::shared_ptr<SwapEngineCore>(core_));
  }
}

Result<void> SwapEngine::usable() const {
  return process_.elsewhere() ? Result<void>(of_another_process()) : Result<void>();
}

Result<NamespaceId> SwapEngine::open_namespace(std::string name, std::vector<PathConfig> paths) {
  PENSTOCK_TRY(usable());
  return core_->open_namespace(std::move(name), std::move(paths));
}
Result<void> SwapEngine::close_namespace(NamespaceId space) {
  PENSTOCK_TRY(usable());
  return core_->close_namespace(space);
}
Result<TensorId> SwapEngine::declare(NamespaceId space, TensorInfo info) {
  PENSTOCK_TRY(usable());
  return core_->declare(space, std::move(info));
}
Result<void> SwapEngine::forget(TensorId tensor) {
  PENSTOCK_TRY(usable());
  return core_->forget(tensor);
}
Result<void> SwapEngine::rename(TensorId tensor, std::string name) {
  PENSTOCK_TRY(usable());
  return core_->rename(tensor, std::move(name));
}
Result<TensorInfo> SwapEngine::info(TensorId tensor) const {
  PENSTOCK_TRY(usable());
  return core_->info(tensor);
}
std::optional<TensorId> SwapEngine::find(NamespaceId space, const std::string& name) const {
  return process_.elsewhere() ? std::nullopt : core_->find(space, name);
}
std::vector<TensorId> SwapEngine::tensors(NamespaceId space) const {
  return core_->tensors(space);
}
Result<Lease> SwapEngine::allocate(TensorId tensor) {
  PENSTOCK_TRY(usable());
  return core_->allocate(tensor);
}
Ticket SwapEngine::commit(const Lease& lease) {
  return process_.elsewhere() ? Ticket::failed(of_another_process()) : core_->commit(lease);
}
Ticket SwapEngine::put(TensorId tensor, std::span<const std::byte> source) {
  return process_.elsewhere() ? Ticket::failed(of_another_process()) : core_->put(tensor, source);
}
Ticket SwapEngine::get(TensorId tensor, Access access) {
  return process_.elsewhere() ? Ticket::failed(of_another_process()) : core_->get(tensor, access);
}
Ticket SwapEngine::get_into(TensorId tensor, std::span<std::byte> target) {
  return process_.elsewhere() ? Ticket::failed(of_another_process())
                              : core_->get_into(tensor, target);
}
void SwapEngine::prefetch(std::span<const TensorId> tensors) {
  if (!process_.elsewhere()) {
    core_->prefetch(tensors);
  }
}
Result<void> SwapEngine::flush() {
  PENSTOCK_TRY(usable());
  if (TicketState::in_callback()) {
    return not_in_a_callback("flush()");
  }
  return core_->flush();
}
Result<void> SwapEngine::check() {
  PENSTOCK_TRY(usable());
  return core_->check();
}
Result<void> SwapEngine::plan() {
  PENSTOCK_TRY(usable());
  return core_->plan();
}
Placement SwapEngine::placement() const {
  return process_.elsewhere() ? Placement{} : core_->placement();
}
SwapStats SwapEngine::stats() const {
  return process_.elsewhere() ? SwapStats{} : core_->stats();
}
Result<TensorState> SwapEngine::state(TensorId tensor) const {
  PENSTOCK_TRY(usable());
  return core_->state(tensor);
}
Result<void> SwapEngine::close() {
  if (process_.elsewhere()) {
    return {};  // nothing of it is this process's
  }
  if (TicketState::in_callback()) {
    return not_in_a_callback("close()");
  }
  return core_->close();
}

}  // namespace penstock
