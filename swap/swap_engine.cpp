#include "swap/swap_engine.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

#include "alloc/out_of_memory.h"
#include "swap/lease_token.h"
#include "swap/log.h"
#include "swap/swap_engine_core.h"
#include "swap/ticket_state.h"
#include "swap/trace_log.h"

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
  const char* const wanted = std::getenv("PENSTOCK_TRACE");
  const std::string target =
      options.trace.empty() && wanted != nullptr ? std::string(wanted) : options.trace;
  Result<std::shared_ptr<SwapEngineCore>> core = SwapEngineCore::make(std::move(options));
  if (core.has_error()) {
    return std::move(core).error();
  }
  std::shared_ptr<TraceLog> trace;
  if (!target.empty()) {
    Result<std::shared_ptr<TraceLog>> log = TraceLog::open(
        target, (*core)->watch(), [](const std::string& sentence) { log_warning(sentence); });
    if (log.has_error()) {
      return std::move(log).error();
    }
    trace = std::move(log).value();
    log_info(fmt::format("every use of the engine is recorded in {}", trace->path()));
  }
  return std::unique_ptr<SwapEngine>(new SwapEngine(std::move(core).value(), std::move(trace)));
}

SwapEngine::SwapEngine(std::shared_ptr<SwapEngineCore> core, std::shared_ptr<TraceLog> trace)
    : core_(std::move(core)), trace_(std::move(trace)) {}

SwapEngine::~SwapEngine() {
  if (process_.elsewhere()) {
    // A forked child has neither the threads nor the locks to take this apart: it is left as it is.
    static_cast<void>(new std::shared_ptr<SwapEngineCore>(std::move(core_)));
  } else if (TicketState::in_callback()) {
    close_elsewhere();
  } else {
    (void)close();
  }
}

/// Closing waits for the I/O thread, which this may be.
void SwapEngine::close_elsewhere() noexcept {
  if (trace_) {
    trace_->close();
  }
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
  Result<NamespaceId> space = core_->open_namespace(name, std::move(paths));
  if (trace_ && space.has_value()) {
    trace_->open_namespace(*space, name);
    trace_contents(*space);
  }
  return space;
}
/// What a durable store brought along.
void SwapEngine::trace_contents(NamespaceId space) const {
  for (const TensorId tensor : core_->tensors(space)) {
    if (const Result<TensorInfo> info = core_->info(tensor); info.has_value()) {
      trace_->declare(tensor, space, *info, true);
    }
  }
}
Result<void> SwapEngine::close_namespace(NamespaceId space) {
  PENSTOCK_TRY(usable());
  if (trace_) {
    trace_->close_namespace(space);
  }
  return core_->close_namespace(space);
}
Result<TensorId> SwapEngine::declare(NamespaceId space, TensorInfo info) {
  return traced_declare(space, std::move(info), false);
}
Result<TensorId> SwapEngine::declare_to_put(NamespaceId space, TensorInfo info) {
  return traced_declare(space, std::move(info), true);
}
Result<TensorId> SwapEngine::traced_declare(NamespaceId space, TensorInfo info, bool to_put) {
  PENSTOCK_TRY(usable());
  if (!trace_) {
    return core_->declare(space, std::move(info), to_put);
  }
  Result<TensorId> tensor = core_->declare(space, info, to_put);
  if (tensor.has_value()) {
    trace_->declare(*tensor, space, info, false);
  }
  return tensor;
}
Result<void> SwapEngine::forget(TensorId tensor) {
  PENSTOCK_TRY(usable());
  Result<void> forgotten = core_->forget(tensor);
  if (trace_ && forgotten.has_value()) {
    trace_->use(TraceOp::kForget, tensor);
  }
  return forgotten;
}
Result<void> SwapEngine::rename(TensorId tensor, std::string name) {
  PENSTOCK_TRY(usable());
  Result<void> renamed = core_->rename(tensor, name);
  if (trace_ && renamed.has_value()) {
    trace_->rename(tensor, name);
  }
  return renamed;
}
Result<void> SwapEngine::set_trained(TensorId tensor, bool is_trained) {
  PENSTOCK_TRY(usable());
  return core_->set_trained(tensor, is_trained);
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
  Result<Lease> lease = core_->allocate(tensor);
  if (trace_ && lease.has_value()) {
    trace_->use(TraceOp::kAllocate, tensor);
    lease->token()->tell(trace_);
  }
  return lease;
}
Ticket SwapEngine::commit(const Lease& lease) {
  if (process_.elsewhere()) {
    return Ticket::failed(of_another_process());
  }
  if (trace_ && lease) {
    trace_->use(TraceOp::kCommit, lease.tensor());
  }
  return core_->commit(lease);
}
Ticket SwapEngine::put(TensorId tensor, std::span<const std::byte> source) {
  if (process_.elsewhere()) {
    return Ticket::failed(of_another_process());
  }
  Ticket ticket = core_->put(tensor, source);
  trace_use(TraceOp::kPut, tensor);
  return ticket;
}
Ticket SwapEngine::get(TensorId tensor, Access access) {
  if (process_.elsewhere()) {
    return Ticket::failed(of_another_process());
  }
  Ticket ticket = core_->get(tensor, access);
  return trace_ ? traced_get(std::move(ticket), tensor, access) : ticket;
}
/// What has begun goes on, whether there is memory to note it or not.
void SwapEngine::trace_use(TraceOp op, TensorId tensor) const noexcept {
  if (trace_) {
    if_memory_allows([&] { trace_->use(op, tensor); });
  }
}
/// Tells when the lease is taken, and when it ends.
Ticket SwapEngine::traced_get(Ticket ticket, TensorId tensor, Access access) const {
  trace_->get(tensor, access);
  ticket.state()->on_lease([trace = trace_, tensor](const Lease& lease) {
    trace->use(TraceOp::kLease, tensor);
    lease.token()->tell(trace);
  });
  return ticket;
}
Ticket SwapEngine::get_into(TensorId tensor, std::span<std::byte> target) {
  if (process_.elsewhere()) {
    return Ticket::failed(of_another_process());
  }
  Ticket ticket = core_->get_into(tensor, target);
  trace_use(TraceOp::kGetInto, tensor);
  return ticket;
}
Ticket SwapEngine::get_to_device(TensorId tensor, const DeviceTensor& target) {
  if (process_.elsewhere()) {
    return Ticket::failed(of_another_process());
  }
  Ticket ticket = core_->get_to_device(tensor, target);
  trace_use(TraceOp::kGetInto, tensor);
  return ticket;
}
Ticket SwapEngine::put_from_device(TensorId tensor, const DeviceTensor& source) {
  if (process_.elsewhere()) {
    return Ticket::failed(of_another_process());
  }
  Ticket ticket = core_->put_from_device(tensor, source);
  trace_use(TraceOp::kPut, tensor);
  return ticket;
}
Result<StreamId> SwapEngine::stream_to_device(const Device& device) const {
  PENSTOCK_TRY(usable());
  return core_->device_stream(device, DeviceTransfer::Direction::kToDevice);
}
Result<StreamId> SwapEngine::stream_from_device(const Device& device) const {
  PENSTOCK_TRY(usable());
  return core_->device_stream(device, DeviceTransfer::Direction::kFromDevice);
}
Result<ContentReader> SwapEngine::read(const std::vector<TensorId>& tensors) {
  PENSTOCK_TRY(usable());
  for (const TensorId tensor : tensors) {
    trace_use(TraceOp::kGetInto, tensor);
  }
  return core_->read(tensors);
}
Result<ContentWriter> SwapEngine::write() {
  PENSTOCK_TRY(usable());
  return core_->write();
}
void SwapEngine::prefetch(std::span<const TensorId> tensors) {
  if (process_.elsewhere()) {
    return;
  }
  if (trace_) {
    trace_->prefetch(tensors);
  }
  core_->prefetch(tensors);
}
Result<void> SwapEngine::flush() {
  PENSTOCK_TRY(usable());
  if (TicketState::in_callback()) {
    return not_in_a_callback("flush()");
  }
  Result<void> flushed = core_->flush();
  if (trace_) {
    trace_->note(TraceOp::kFlush);
  }
  return flushed;
}
Result<void> SwapEngine::check() {
  PENSTOCK_TRY(usable());
  return core_->check();
}
Result<void> SwapEngine::plan() {
  PENSTOCK_TRY(usable());
  if (trace_) {
    trace_->note(TraceOp::kPlan);
  }
  return core_->plan();
}
Placement SwapEngine::placement() const {
  return process_.elsewhere() ? Placement{} : core_->placement();
}
SwapStats SwapEngine::stats() const {
  return process_.elsewhere() ? SwapStats{} : core_->stats();
}
std::optional<std::string> SwapEngine::overflow_advice() const {
  return process_.elsewhere() ? std::nullopt : core_->overflow_advice();
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
  if (trace_) {
    trace_->close();
  }
  return core_->close();
}

}  // namespace penstock
