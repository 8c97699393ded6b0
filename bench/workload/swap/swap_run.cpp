#include "bench/workload/swap/swap_run.h"

#include <fmt/format.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bench/workload/swap/job_model.h"
#include "bench/workload/swap/phase_order.h"
#include "bench/workload/swap/run_length.h"
#include "bench/workload/swap/swap_inventory.h"
#include "bench/workload/swap/swap_meter.h"
#include "bench/workload/swap/swap_session.h"
#include "bench/workload/swap/tensor_pattern.h"

namespace penstock::bench {
namespace {

using Action = TensorUse::Action;

// After one loop the engine does not know yet that another one comes.
constexpr std::uint32_t kLoopsToLearn = 2;

class SwapRun final : public WorkloadRun {
 public:
  SwapRun(const Job& job, std::uint32_t thread) : job_(job), thread_(thread) {}

  Result<void> prepare(RunControl& control) override;
  Result<void> run(RunControl& control, JobResult& result) override;

 private:
  struct Tensor {
    TensorId id{};
    std::uint64_t version = 0;  // of its content
    Lease held;                 // between kFetch and kCommit
  };

  Result<void> read_inventory();
  Result<void> open_engine();
  Result<void> write_contents(const RunControl& control);
  Result<void> go_through(const RunLength& length);
  Result<void> read(std::uint32_t number);
  Result<std::size_t> fetch(std::size_t first);
  Result<void> write(std::uint32_t number);
  Result<void> commit(std::uint32_t number, const Lease& lease);
  Result<void> check(std::uint32_t number, const Lease& lease) const;
  void compute(std::uint64_t bytes);
  SwapEngine& engine() { return *session_.engine; }
  SwapDevice& device() { return *session_.device; }
  TensorPattern pattern(std::uint32_t number) const { return {number, tensors_[number].version}; }

  const Job job_;
  const std::uint32_t thread_;
  SwapInventory inventory_;
  std::vector<TensorUse> order_;
  SwapSession session_;
  std::vector<Tensor> tensors_;
  std::optional<SwapMeter> meter_;
};

Result<void> SwapRun::read_inventory() {
  const Result<TrainingSetup> setup = job_model(job_);
  PENSTOCK_TRY(setup);
  inventory_ = swap_inventory(*setup, job_.phase);
  order_ = phase_order(inventory_, job_.phase);
  if (order_.empty()) {
    return fault(Fault::kConfiguration,
                 fmt::format("job {}: in this phase nothing of {} is on NVMe under {}", job_.name,
                             job_.inventory, job_.config));
  }
  return {};
}

Result<void> SwapRun::open_engine() {
  Result<SwapSession> session = open_swap_session(job_);
  if (session.has_error()) {
    return std::move(session).error();
  }
  session_ = std::move(session).value();
  const Result<NamespaceId> space =
      engine().open_namespace(fmt::format("{}.{}", job_.name, thread_), session_.paths);
  PENSTOCK_TRY(space);
  for (const TensorInfo& info : inventory_.tensors) {
    const Result<TensorId> id = engine().declare(*space, info);
    PENSTOCK_TRY(id);
    tensors_.push_back({*id, 0, {}});
  }
  return {};
}

/// As a model is built: each content in the engine's memory, then its own.
Result<void> SwapRun::write_contents(const RunControl& control) {
  PENSTOCK_TRY(engine().plan());  // so that there are slots, and no fresh page for each byte
  for (std::uint32_t number = 0; number < tensors_.size() && !control.stop; ++number) {
    Result<Lease> lease = engine().allocate(tensors_[number].id);
    if (lease.has_error()) {
      return std::move(lease).error();
    }
    pattern(number).fill(lease->span());
    static_cast<void>(engine().commit(*lease));  // flush() returns what fails
  }
  PENSTOCK_TRY(engine().flush());
  return engine().plan();
}

Result<void> SwapRun::prepare(RunControl& control) {
  PENSTOCK_TRY(read_inventory());
  PENSTOCK_TRY(open_engine());
  PENSTOCK_TRY(write_contents(control));
  meter_.emplace(engine(), device(), control);
  meter_->begin();
  for (std::uint32_t loop = 0; loop < kLoopsToLearn; ++loop) {
    PENSTOCK_TRY(go_through(RunLength(job_, control, device()).once()));
  }
  const PhaseBytes bytes = phase_bytes(inventory_, order_);
  control.read_bytes = 0;
  control.write_bytes = 0;
  control.total_bytes = job_.time_based ? 0 : (bytes.read + bytes.write) * job_.loops;
  return {};
}

Result<void> SwapRun::run(RunControl& control, JobResult& result) {
  RunLength length(job_, control, device());
  while (length.ramps_up()) {
    PENSTOCK_TRY(go_through(length));
  }
  PENSTOCK_TRY(engine().flush());  // writes of before are not counted
  meter_->begin();
  length.begin();
  Result<void> done;
  while (done.has_value() && length.begins_loop()) {
    done = go_through(length);
  }
  if (done.has_value()) {
    done = engine().flush();
    meter_->settle();
  }
  meter_->report(result);
  result.interrupted = control.stop;
  return done;
}

Result<void> SwapRun::go_through(const RunLength& length) {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::uint32_t number = order_[i].tensor;
    if (length.is_over()) {
      break;
    }
    switch (order_[i].action) {
      case Action::kRead:
        PENSTOCK_TRY(read(number));
        break;
      case Action::kFetch: {
        const Result<std::size_t> last = fetch(i);
        PENSTOCK_TRY(last);
        i = *last;
        break;
      }
      case Action::kWrite:
        PENSTOCK_TRY(write(number));
        break;
      case Action::kCommit:
        PENSTOCK_TRY(commit(number, std::exchange(tensors_[number].held, {})));
        break;
    }
  }
  for (Tensor& tensor : tensors_) {
    tensor.held.release();  // where the time was over in between
  }
  return {};
}

Result<void> SwapRun::read(std::uint32_t number) {
  const std::uint64_t since = meter_->note_asked();
  const Result<Lease> lease = engine().get(tensors_[number].id).lease();
  PENSTOCK_TRY(lease);
  meter_->note_read(since, lease->bytes());
  PENSTOCK_TRY(check(number, *lease));
  compute(lease->bytes());
  return {};
}

/// All that are to be fetched from `first` on, asked for together; returns the last.
Result<std::size_t> SwapRun::fetch(std::size_t first) {
  const std::uint64_t since = meter_->note_asked();
  std::deque<Ticket> tickets;
  std::size_t end = first;
  for (; end < order_.size() && order_[end].action == Action::kFetch; ++end) {
    tickets.push_back(engine().get(tensors_[order_[end].tensor].id, Access::kUpdate));
  }
  for (std::size_t i = first; i < end; ++i) {
    const std::uint32_t number = order_[i].tensor;
    Result<Lease> lease = tickets[i - first].lease();
    PENSTOCK_TRY(lease);
    meter_->note_read(since, lease->bytes());
    PENSTOCK_TRY(check(number, *lease));
    tensors_[number].held = std::move(*lease);
  }
  for (std::size_t i = first; i < end; ++i) {
    compute(inventory_.bytes(order_[i].tensor));
  }
  return end - 1;
}

Result<void> SwapRun::write(std::uint32_t number) {
  const Result<Lease> lease = engine().allocate(tensors_[number].id);
  PENSTOCK_TRY(lease);
  return commit(number, *lease);
}

/// Without verify= contents do not matter: what is there is written.
Result<void> SwapRun::commit(std::uint32_t number, const Lease& lease) {
  PENSTOCK_TRY(engine().check());
  if (job_.verify) {
    ++tensors_[number].version;
    pattern(number).fill(lease.span());
  }
  meter_->watch_write(engine().commit(lease), lease.bytes());
  return {};
}

Result<void> SwapRun::check(std::uint32_t number, const Lease& lease) const {
  if (!job_.verify) {
    return {};
  }
  const std::optional<std::uint64_t> wrong = pattern(number).first_difference(lease.span());
  if (!wrong) {
    return {};
  }
  const std::string& name = inventory_.tensors[number].name;
  Error error = system_error(
      EILSEQ, fmt::format("tensor '{}' ({}) came back with another byte at {} than was written",
                          name, format_bytes(lease.bytes()), *wrong));
  error.tensor = name;
  return error;
}

void SwapRun::compute(std::uint64_t bytes) {
  if (job_.compute) {
    device().compute(compute_ns(*job_.compute, bytes), job_.compute->spins);
  }
}

}  // namespace

std::unique_ptr<WorkloadRun> make_swap_run(const Job& job, std::uint32_t thread) {
  return std::make_unique<SwapRun>(job, thread);
}

}  // namespace penstock::bench
