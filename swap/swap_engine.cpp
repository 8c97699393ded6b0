#include "swap/swap_engine.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "alloc/out_of_memory.h"
#include "swap/engine/engine_core.h"
#include "swap/engine/guarded_call.h"
#include "swap/engine/lease_token.h"
#include "swap/engine/ticket_state.h"
#include "swap/engine/trace_log.h"
#include "swap/log.h"

namespace penstock {
namespace {

/// The log has what a caller takes as well, where a log was asked for.
std::function<void(const Warning&)> warning_to(std::function<void(const Warning&)> caller) {
  return [caller = std::move(caller)](const Warning& warning) {
    if (!caller || log_is_asked_for()) {
      log_warning(warning);
    }
    try {
      if (caller) {
        caller(warning);
      }
    } catch (...) {  // this may be the I/O thread, which nothing could catch it on
      if_memory_allows([] {
        log_warning({WarningCode::kCallbackThrew, "the callback `warn` threw, which it must not"});
      });
    }
  };
}

}  // namespace

Result<std::unique_ptr<SwapEngine>> SwapEngine::open(SwapEngineOptions options) {
  read_log_settings();
  const char* const wanted = std::getenv("PENSTOCK_TRACE");
  const std::string target =
      options.trace.empty() && wanted != nullptr ? std::string(wanted) : options.trace;
  options.warn = warning_to(std::move(options.warn));
  const auto warn = options.warn;
  const std::vector<std::string> unread = options.config.unread;
  Result<std::shared_ptr<EngineCore>> core = EngineCore::make(std::move(options));
  PENSTOCK_TRY(core);
  for (const std::string& setting : unread) {
    warn({WarningCode::kUnreadKey, setting});
  }
  std::shared_ptr<TraceLog> trace;
  if (!target.empty()) {
    Result<std::shared_ptr<TraceLog>> log = TraceLog::open(
        target, (*core)->watch(),
        [warn](const std::string& text) { warn({WarningCode::kTraceIncomplete, text}); });
    PENSTOCK_TRY(log);
    trace = std::move(log).value();
    log_info(LogEvent::kNote, [&] {
      return fmt::format("every use of the engine is recorded in {}", trace->path());
    });
  }
  return std::unique_ptr<SwapEngine>(new SwapEngine(std::move(core).value(), std::move(trace)));
}

SwapEngine::SwapEngine(std::shared_ptr<EngineCore> core, std::shared_ptr<TraceLog> trace)
    : TensorDirectory(std::move(core), std::move(trace)) {}

SwapEngine::~SwapEngine() {
  if (process_.elsewhere()) {
    // A forked child has neither the threads nor the locks to take this apart: it is left as it is.
    static_cast<void>(new std::shared_ptr<EngineCore>(std::move(core_)));
  } else if (TicketState::in_callback()) {
    close_elsewhere();
  } else {
    (void)close();
  }
}

/// Closing waits for the I/O thread, which this may be.
void SwapEngine::close_elsewhere() noexcept {
  trace([](TraceLog& log) { log.close(); });
  try {
    std::thread([core = core_] { (void)core->close(); }).detach();
  } catch (const std::exception&) {
    // No thread to be had: the engine stays open until the process ends.
    static_cast<void>(new std::shared_ptr<EngineCore>(core_));
  }
}

Result<void> SwapEngine::usable() const {
  return guarded([](EngineCore& core) -> Result<void> { return core.tensors().usable(); });
}

// --- Contents ------------------------------------------------------------------------------------

Result<Lease> SwapEngine::allocate(TensorId tensor) {
  return guarded([&](EngineCore& core) {
    Result<Lease> lease = core.committer().allocate(tensor);
    if (lease.has_value()) {
      trace([&](TraceLog& log) {
        log.use(TraceOp::kAllocate, tensor);
        lease->token()->record_end_in(trace_);
      });
    }
    return lease;
  });
}

Ticket SwapEngine::commit(const Lease& lease) {
  return guarded([&](EngineCore& core) {
    if (lease) {
      trace([&](TraceLog& log) { log.use(TraceOp::kCommit, lease.tensor()); });
    }
    return core.committer().commit(lease);
  });
}

Ticket SwapEngine::put(TensorId tensor, std::span<const std::byte> source) {
  return guarded([&](EngineCore& core) {
    Ticket ticket = core.committer().put(tensor, source);
    trace_use(TraceOp::kPut, tensor);
    return ticket;
  });
}

Ticket SwapEngine::get(TensorId tensor, Access access) {
  return guarded([&](EngineCore& core) {
    Ticket ticket = core.reader().get(tensor, access);
    trace([&](TraceLog& log) {
      log.use(TraceOp::kGet, tensor, access);
      ticket.state()->on_lease([shared = trace_, tensor, access](const Lease& lease) {
        shared->use(TraceOp::kLease, tensor, access);
        lease.token()->record_end_in(shared);
      });
    });
    return ticket;
  });
}

Ticket SwapEngine::get_into(TensorId tensor, std::span<std::byte> target) {
  return guarded([&](EngineCore& core) {
    Ticket ticket = core.targets().get_into(tensor, target);
    trace_use(TraceOp::kGetInto, tensor);
    return ticket;
  });
}

Ticket SwapEngine::get_to_device(TensorId tensor, const DeviceTensor& target) {
  return guarded([&](EngineCore& core) {
    Ticket ticket = core.targets().get_to_device(tensor, target);
    trace_use(TraceOp::kGetInto, tensor);
    return ticket;
  });
}

Ticket SwapEngine::put_from_device(TensorId tensor, const DeviceTensor& source) {
  return guarded([&](EngineCore& core) {
    Ticket ticket = core.committer().put_from_device(tensor, source);
    trace_use(TraceOp::kPut, tensor);
    return ticket;
  });
}

Result<StreamId> SwapEngine::stream_to_device(const Device& device) const {
  return guarded([&](EngineCore& core) {
    return core.targets().device_stream(device, DeviceDirection::kToDevice);
  });
}

Result<StreamId> SwapEngine::stream_from_device(const Device& device) const {
  return guarded([&](EngineCore& core) {
    return core.targets().device_stream(device, DeviceDirection::kFromDevice);
  });
}

Result<ContentReader> SwapEngine::read(const std::vector<TensorId>& tensors) {
  return guarded([&](EngineCore& core) -> Result<ContentReader> {
    PENSTOCK_TRY(not_in_a_callback("read()"));
    for (const TensorId tensor : tensors) {
      trace_use(TraceOp::kGetInto, tensor);
    }
    return core.streams().read(tensors);
  });
}

Result<ContentWriter> SwapEngine::write() {
  return guarded([](EngineCore& core) -> Result<ContentWriter> {
    PENSTOCK_TRY(not_in_a_callback("write()"));
    return core.streams().write();
  });
}

// --- The engine ----------------------------------------------------------------------------------

void SwapEngine::prefetch(std::span<const TensorId> tensors) {
  guarded([&](EngineCore& core) {
    trace([&](TraceLog& log) { log.prefetch(tensors); });
    core.ahead().prefetch(tensors);
  });
}

Result<void> SwapEngine::flush() {
  return guarded([&](EngineCore& core) -> Result<void> {
    PENSTOCK_TRY(not_in_a_callback("flush()"));
    Result<void> flushed = core.namespaces().flush();
    trace([](TraceLog& log) { log.note(TraceOp::kFlush); });
    return flushed;
  });
}

Result<void> SwapEngine::check() {
  return guarded([](EngineCore& core) { return core.namespaces().check(); });
}

Result<void> SwapEngine::plan() {
  return guarded([&](EngineCore& core) -> Result<void> {
    PENSTOCK_TRY(not_in_a_callback("plan()"));
    trace([](TraceLog& log) { log.note(TraceOp::kPlan); });
    return core.plans().plan();
  });
}

Placement SwapEngine::placement() const {
  return guarded([](EngineCore& core) { return core.plans().placement(); });
}

SwapStats SwapEngine::stats() const {
  return guarded([](EngineCore& core) { return core.stats(); });
}

std::optional<std::string> SwapEngine::overflow_advice() const {
  return guarded([](EngineCore& core) { return core.overflow_advice(); });
}

Result<void> SwapEngine::close() {
  if (process_.elsewhere()) {
    return {};  // nothing of it is this process's
  }
  PENSTOCK_TRY(not_in_a_callback("close()"));
  trace([](TraceLog& log) { log.close(); });
  return core_->close();
}

}  // namespace penstock
