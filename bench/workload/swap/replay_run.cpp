#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "alloc/page_source.h"
#include "bench/workload/swap/run_length.h"
#include "bench/workload/swap/swap_meter.h"
#include "bench/workload/swap/swap_session.h"
#include "bench/workload/swap/tensor_pattern.h"
#include "bench/workload/workload_run.h"
#include "bindings/inventory/recorded_trace.h"
#include "swap/engine/lease_token.h"

namespace penstock::bench {
namespace {

/// The first that is meant; traces of older versions do not say which.
auto first_or_begin(auto& all, auto is_meant) {
  const auto found = std::ranges::find_if(all, is_meant);
  return found == all.end() ? all.begin() : found;
}

class ReplayRun final : public WorkloadRun {
 public:
  explicit ReplayRun(const Job& job) : job_(job) {}

  Result<void> prepare(RunControl& control) override;
  Result<void> run(RunControl& control, JobResult& result) override;

 private:
  /// A get whose lease was not taken yet.
  struct Asked {
    Ticket ticket;
    bool update = false;
    std::uint64_t since_ns = 0;
    std::uint64_t version = 0;  // what was stored then; a newer one may come as well
  };
  struct Tensor {
    TensorId id{};
    std::uint64_t bytes = 0;
    std::uint64_t version = 0;  // of its content
    bool is_forgotten = false;  // its leases are not
    std::deque<Asked> asked;
    std::deque<Lease> held;
  };

  Result<void> go_through(const RunLength& length);
  Result<void> play(const TraceEvent& event);
  Result<void> play_tensor(const TraceEvent& event, Tensor& tensor);
  Result<void> declare(const TraceEvent& event);
  Result<void> put(std::uint64_t number, Tensor& tensor);
  Result<void> take(const TraceEvent& event, Tensor& tensor);
  Result<void> get_into(std::uint64_t number, Tensor& tensor);
  Result<void> commit(std::uint64_t number, Tensor& tensor);
  Result<void> check(std::uint64_t number, const Tensor& tensor, std::uint64_t oldest,
                     std::span<const std::byte> bytes) const;
  void release(const TraceEvent& event, Tensor& tensor);
  void pass_time(const TraceEvent& event, const TraceEvent* before);
  Result<std::span<std::byte>> callers_memory(std::uint64_t bytes);
  Result<void> leave();

  const Job job_;
  RecordedTrace trace_;
  SwapSession session_;
  Memory callers_memory_;                        // of put and get_into
  std::map<std::uint64_t, Tensor> tensors_;      // by the trace's number
  std::map<std::uint32_t, NamespaceId> spaces_;  // likewise
  std::optional<SwapMeter> meter_;
};

Result<void> ReplayRun::prepare(RunControl& control) {
  Result<RecordedTrace> trace = load_trace(job_.trace);
  PENSTOCK_TRY(trace);
  trace_ = std::move(trace).value();
  Result<SwapSession> session = open_swap_session(job_, control.stop);
  PENSTOCK_TRY(session);
  session_ = std::move(session).value();
  meter_.emplace(*session_.engine, *session_.device, control);
  return {};
}

Result<void> ReplayRun::run(RunControl& control, JobResult& result) {
  RunLength length(job_, control, *session_.device);
  meter_->begin();
  length.begin();
  Result<void> done;
  while (done.has_value() && length.begins_loop()) {
    done = go_through(length);
    if (done.has_value()) {
      done = session_.engine->flush();
    }
    meter_->report(result);
    if (Result<void> left = leave(); done.has_value()) {
      done = std::move(left);
    }
  }
  result.interrupted = control.stop;
  return done;
}

Result<void> ReplayRun::go_through(const RunLength& length) {
  const TraceEvent* before = nullptr;
  for (const TraceEvent& event : trace_.events) {
    if (length.is_over()) {
      return {};
    }
    pass_time(event, before);
    PENSTOCK_TRY(play(event));
    before = &event;
  }
  return {};
}

void ReplayRun::pass_time(const TraceEvent& event, const TraceEvent* before) {
  if (job_.compute) {
    return;  // by tensor, in take()
  }
  const std::uint64_t passed = event.at_ns - (before == nullptr ? 0 : before->at_ns);
  const std::uint64_t waited = event.waited_ns - (before == nullptr ? 0 : before->waited_ns);
  if (waited < passed) {
    session_.device->compute(passed - waited, true);
  }
}

Result<void> ReplayRun::play_tensor(const TraceEvent& event, Tensor& tensor) {
  SwapEngine& engine = *session_.engine;
  switch (event.op) {
    case TraceOp::kForget:
      tensor.is_forgotten = true;
      return engine.forget(tensor.id);
    case TraceOp::kRename:
      return engine.rename(tensor.id, event.name);
    case TraceOp::kAllocate: {
      Result<Lease> lease = engine.allocate(tensor.id);
      PENSTOCK_TRY(lease);
      tensor.held.push_back(std::move(*lease));
      return {};
    }
    case TraceOp::kGet:
      for (const Lease& held : tensor.held) {
        held.end_update();  // as it was when this was recorded: only views were left
      }
      tensor.asked.push_back({engine.get(tensor.id, event.update ? Access::kUpdate : Access::kRead),
                              event.update, meter_->note_asked(), tensor.version});
      return {};
    case TraceOp::kLease:
      return take(event, tensor);
    case TraceOp::kCommit:
      return commit(event.tensor, tensor);
    case TraceOp::kPut:
      return put(event.tensor, tensor);
    case TraceOp::kGetInto:
      return get_into(event.tensor, tensor);
    default:
      release(event, tensor);
      return {};
  }
}

Result<void> ReplayRun::play(const TraceEvent& event) {
  SwapEngine& engine = *session_.engine;
  switch (event.op) {
    case TraceOp::kOpenNamespace: {
      const Result<NamespaceId> space = engine.open_namespace(event.name, session_.paths);
      PENSTOCK_TRY(space);
      spaces_[event.space] = *space;
      return {};
    }
    case TraceOp::kCloseNamespace: {
      const auto space = spaces_.find(event.space);
      return space == spaces_.end() ? Result<void>()
                                    : engine.close_namespace(spaces_.extract(space).mapped());
    }
    case TraceOp::kDeclare:
      return declare(event);
    case TraceOp::kPlan:
      return engine.plan();
    case TraceOp::kFlush:
      return engine.flush();
    case TraceOp::kPrefetch: {
      std::vector<TensorId> wanted;
      for (const std::uint64_t number : event.tensors) {
        wanted.push_back(tensors_.at(number).id);
      }
      engine.prefetch(wanted);
      return {};
    }
    default:
      return play_tensor(event, tensors_.at(event.tensor));
  }
}

/// What a durable store had brought along is written first.
Result<void> ReplayRun::declare(const TraceEvent& event) {
  const auto space = spaces_.find(event.space);
  if (space == spaces_.end()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{}: tensor '{}' is of a namespace that was not opened", job_.trace,
                             event.info.name));
  }
  const Result<TensorId> id = session_.engine->declare(space->second, event.info);
  PENSTOCK_TRY(id);
  Tensor& tensor = tensors_[event.tensor];
  tensor = {};
  tensor.id = *id;
  tensor.bytes = event.info.bytes();
  return event.stored ? put(event.tensor, tensor) : Result<void>();
}

Result<void> ReplayRun::put(std::uint64_t number, Tensor& tensor) {
  const Result<std::span<std::byte>> memory = callers_memory(tensor.bytes);
  PENSTOCK_TRY(memory);
  TensorPattern(number, ++tensor.version).fill(*memory);
  meter_->note_written(tensor.bytes);
  return session_.engine->put(tensor.id, *memory).wait();
}

Result<void> ReplayRun::take(const TraceEvent& event, Tensor& tensor) {
  const std::uint64_t number = event.tensor;
  if (tensor.asked.empty()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{}: the lease of tensor {} was never asked for", job_.trace, number));
  }
  const auto found = first_or_begin(
      tensor.asked, [&](const Asked& asked) { return asked.update == event.update; });
  const Asked asked = std::move(*found);
  tensor.asked.erase(found);
  Result<Lease> lease = asked.ticket.lease();
  if (lease.has_error() && tensor.is_forgotten) {
    return {};  // this time the read had not ended
  }
  PENSTOCK_TRY(lease);
  meter_->note_read(asked.since_ns, tensor.bytes);
  tensor.held.push_back(std::move(*lease));
  compute(job_, *session_.device, tensor.bytes);
  return check(number, tensor, asked.version, tensor.held.back().span());
}

Result<void> ReplayRun::get_into(std::uint64_t number, Tensor& tensor) {
  const Result<std::span<std::byte>> memory = callers_memory(tensor.bytes);
  PENSTOCK_TRY(memory);
  const std::uint64_t since = meter_->note_asked();
  PENSTOCK_TRY(session_.engine->get_into(tensor.id, *memory).wait());
  meter_->note_read(since, tensor.bytes);
  return check(number, tensor, tensor.version, *memory);
}

/// The lease that was given last to change a content.
Result<void> ReplayRun::commit(std::uint64_t number, Tensor& tensor) {
  const auto found = std::find_if(tensor.held.rbegin(), tensor.held.rend(), [](const Lease& held) {
    return held.token()->access() == Access::kUpdate;
  });
  if (found == tensor.held.rend()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{}: tensor {} is committed and not held", job_.trace, number));
  }
  const Lease& lease = *found;
  ++tensor.version;
  if (job_.verify) {
    TensorPattern(number, tensor.version).fill(lease.span());
  }
  static_cast<void>(session_.engine->commit(lease));  // check() returns what fails
  meter_->note_written(tensor.bytes);
  return session_.engine->check();
}

void ReplayRun::release(const TraceEvent& event, Tensor& tensor) {
  const Access access = event.update ? Access::kUpdate : Access::kRead;
  if (!tensor.held.empty()) {
    tensor.held.erase(first_or_begin(
        tensor.held, [&](const Lease& held) { return held.token()->access() == access; }));
  } else if (!tensor.asked.empty()) {  // it was never taken
    tensor.asked.erase(first_or_begin(
        tensor.asked, [&](const Asked& asked) { return asked.update == event.update; }));
  }
}

/// `bytes` must be a version from `oldest` on.
Result<void> ReplayRun::check(std::uint64_t number, const Tensor& tensor, std::uint64_t oldest,
                              std::span<const std::byte> bytes) const {
  if (!job_.verify) {
    return {};
  }
  const std::string what = fmt::format("tensor {} of {}", number, job_.trace);
  const Result<void> newest = TensorPattern(number, tensor.version).check(bytes, what);
  for (std::uint64_t version = tensor.version; newest.has_error() && version-- > oldest;) {
    if (!TensorPattern(number, version).first_difference(bytes)) {
      return {};
    }
  }
  return newest;
}

Result<std::span<std::byte>> ReplayRun::callers_memory(std::uint64_t bytes) {
  if (callers_memory_.bytes() < bytes) {
    callers_memory_ = {};
    Result<Memory> memory = PageSource::make()->allocate(bytes);
    PENSTOCK_TRY(memory);
    callers_memory_ = std::move(memory).value();
  }
  return callers_memory_.span().first(bytes);
}

/// Everything that the trace left open ends, so that it can begin again.
Result<void> ReplayRun::leave() {
  tensors_.clear();
  Result<void> closed;
  for (const auto& [number, space] : std::exchange(spaces_, {})) {
    if (Result<void> one = session_.engine->close_namespace(space); closed.has_value()) {
      closed = std::move(one);
    }
  }
  return closed;
}

}  // namespace

std::unique_ptr<WorkloadRun> make_replay_run(const Job& job) {
  return std::make_unique<ReplayRun>(job);
}

}  // namespace penstock::bench
