#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bench/workload/swap/run_length.h"
#include "bench/workload/swap/swap_inventory.h"
#include "bench/workload/swap/swap_meter.h"
#include "bench/workload/swap/swap_session.h"
#include "bench/workload/swap/tensor_pattern.h"
#include "bench/workload/workload_run.h"
#include "swap/update/adam.h"
#include "swap/update/state_chunk.h"

namespace penstock::bench {
namespace {

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
  };

  Result<void> read_inventory();
  Result<void> open_engine(const RunControl& control);
  Result<void> write_contents(const RunControl& control);
  Result<void> go_through(const RunLength& length);
  Result<void> read(std::uint32_t number);
  Result<void> step(std::uint32_t number);
  void announce(std::uint32_t step);
  void update(std::span<const Lease> states);
  Result<void> write(std::uint32_t number);
  Result<void> commit(std::uint32_t number, const Lease& lease);
  Result<void> check(std::uint32_t number, const Lease& lease) const;
  SwapEngine& engine() { return *session_.engine; }
  SwapDevice& device() { return *session_.device; }
  TensorPattern pattern(std::uint32_t number) const { return {number, tensors_[number].version}; }

  const Job job_;
  const std::uint32_t thread_;
  SwapInventory inventory_;
  std::vector<PhaseUse> order_;
  SwapSession session_;
  std::vector<Tensor> tensors_;
  std::vector<float> gradient_;  // of a chunk; empty where nothing is computed
  Adam adam_;
  std::uint64_t loops_ = 0;
  std::optional<SwapMeter> meter_;
};

Result<void> SwapRun::read_inventory() {
  Result<SwapInventory> inventory = job_inventory(job_);
  PENSTOCK_TRY(inventory);
  inventory_ = std::move(*inventory);
  order_ = phase_order(inventory_, job_.phase);
  if (order_.empty()) {
    return fault(Fault::kConfiguration,
                 fmt::format("job {}: in this phase nothing of {} is on NVMe under {}", job_.name,
                             job_.inventory, job_.config));
  }
  return {};
}

Result<void> SwapRun::open_engine(const RunControl& control) {
  Result<SwapSession> session = open_swap_session(job_, control.stop);
  PENSTOCK_TRY(session);
  session_ = std::move(session).value();
  const Result<NamespaceId> space =
      engine().open_namespace(fmt::format("{}.{}", job_.name, thread_), session_.paths);
  PENSTOCK_TRY(space);
  for (const TensorInfo& info : inventory_.tensors) {
    const Result<TensorId> id = engine().declare(*space, info);
    PENSTOCK_TRY(id);
    tensors_.push_back({*id, 0});
  }
  return {};
}

/// As a model is built: each content in the engine's memory, then its own.
Result<void> SwapRun::write_contents(const RunControl& control) {
  PENSTOCK_TRY(engine().plan());  // so that there are slots, and no fresh page for each byte
  for (std::uint32_t number = 0; number < tensors_.size() && !control.stop; ++number) {
    Result<Lease> lease = engine().allocate(tensors_[number].id);
    PENSTOCK_TRY(lease);
    pattern(number).fill(lease->span());
    static_cast<void>(engine().commit(*lease));  // flush() returns what fails
  }
  PENSTOCK_TRY(engine().flush());
  return engine().plan();
}

Result<void> SwapRun::prepare(RunControl& control) {
  PENSTOCK_TRY(read_inventory());
  PENSTOCK_TRY(open_engine(control));
  PENSTOCK_TRY(write_contents(control));
  if (job_.workload == Workload::kUpdate && !job_.verify) {
    gradient_.assign(kStateChunkElements, 1e-3F);
  }
  meter_.emplace(engine(), device(), control);
  meter_->begin();
  for (std::uint32_t loop = 0; loop < kLoopsToLearn; ++loop) {
    PENSTOCK_TRY(go_through(RunLength(job_, control, device())));
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
  }
  meter_->report(result);
  result.interrupted = control.stop;
  return done;
}

Result<void> SwapRun::go_through(const RunLength& length) {
  ++loops_;
  for (const PhaseUse& use : order_) {
    if (length.is_over()) {
      break;
    }
    PENSTOCK_TRY(use.kind == PhaseUse::Kind::kStep ? step(use.number) : read(use.number));
  }
  return {};
}

Result<void> SwapRun::read(std::uint32_t number) {
  const std::uint64_t since = meter_->note_asked();
  const Result<Lease> lease = engine().get(tensors_[number].id).lease();
  PENSTOCK_TRY(lease);
  meter_->note_read(since, lease->bytes());
  PENSTOCK_TRY(check(number, *lease));
  compute(job_, device(), lease->bytes());
  return {};
}

/// As the step under DeepSpeed goes, chunk by chunk.
Result<void> SwapRun::step(std::uint32_t number) {
  const SwapInventory::Step& chunk = inventory_.steps[number];
  const std::uint64_t since = meter_->note_asked();
  announce(number);
  std::vector<Ticket> tickets;
  for (const std::uint32_t state : chunk.states) {
    tickets.push_back(engine().get(tensors_[state].id, Access::kUpdate));
  }
  std::vector<Lease> leases;
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    Result<Lease> lease = tickets[i].lease();
    PENSTOCK_TRY(lease);
    meter_->note_read(since, lease->bytes());
    leases.push_back(std::move(*lease));
  }
  for (std::size_t i = 0; i < leases.size(); ++i) {  // no read's latency has it
    PENSTOCK_TRY(check(chunk.states[i], leases[i]));
  }
  update(leases);
  for (std::size_t i = 0; i < leases.size(); ++i) {
    compute(job_, device(), leases[i].bytes());
    PENSTOCK_TRY(commit(chunk.states[i], leases[i]));
  }
  leases.clear();
  for (const std::uint32_t parameter : chunk.parameters) {
    PENSTOCK_TRY(write(parameter));
  }
  return {};
}

void SwapRun::announce(std::uint32_t step) {
  const std::size_t last = step + kStateChunksAhead;
  for (std::size_t next = step == 0 ? 0 : last; next <= last && next < inventory_.steps.size();
       ++next) {
    std::vector<TensorId> wanted;
    for (const std::uint32_t state : inventory_.steps[next].states) {
      wanted.push_back(tensors_[state].id);
    }
    engine().prefetch(wanted);
  }
}

/// AdamW, whose results are the tests' of swap/update to prove.
void SwapRun::update(std::span<const Lease> states) {
  if (gradient_.empty() || states.size() != 3) {
    return;
  }
  const std::size_t elements = std::min(gradient_.size(), states[0].bytes() / sizeof(float));
  const auto state = [&](std::size_t i) {
    return std::span(reinterpret_cast<float*>(states[i].data()), elements);
  };
  adam_.step(loops_, AdamOptions{})
      .update({state(0), state(1), state(2), std::span(gradient_).first(elements)});
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
  static_cast<void>(engine().commit(lease));  // check() returns what fails
  meter_->note_written(lease.bytes());
  return {};
}

Result<void> SwapRun::check(std::uint32_t number, const Lease& lease) const {
  return job_.verify
             ? pattern(number).check(lease.span(),
                                     fmt::format("tensor '{}'", inventory_.tensors[number].name))
             : Result<void>();
}

}  // namespace

std::unique_ptr<WorkloadRun> make_swap_run(const Job& job, std::uint32_t thread) {
  return std::make_unique<SwapRun>(job, thread);
}

}  // namespace penstock::bench
