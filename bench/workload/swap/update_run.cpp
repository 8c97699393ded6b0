#include "bench/workload/swap/update_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bench/workload/swap/job_model.h"
#include "bench/workload/swap/run_length.h"
#include "bench/workload/swap/swap_meter.h"
#include "bench/workload/swap/swap_session.h"
#include "swap/update/adam.h"
#include "swap/update/state_chunk.h"

namespace penstock::bench {
namespace {

constexpr std::size_t kStates = 3;  // master and two moments
static_assert(kStateChunkElements % kAdamCutElements == 0);

/// So many elements of each state, a tensor each.
struct Chunk {
  std::array<TensorId, kStates> tensors{};
  std::uint64_t elements = 0;
};

using States = std::array<std::span<float>, kStates>;

// States are equal over so many elements, which a simulated drive keeps in 16 bytes; a reference
// for all of them says what they must become. Behind the last place where a chunk may be cut each
// element has its own: the last of them are computed otherwise (AdamStep).
constexpr std::uint64_t kRunElements = kBlockBytes / sizeof(float);

std::uint64_t references(std::uint64_t elements) {
  return align_up(elements / kRunElements + 1, kAdamCutElements) + elements % kAdamCutElements;
}

/// Which of them is that of element `i`.
std::uint64_t reference_of(std::uint64_t i, std::uint64_t elements) {
  const std::uint64_t singles = elements % kAdamCutElements;
  return i < elements - singles ? i / kRunElements : references(elements) - (elements - i);
}

/// Of a chunk's memory.
AdamState adam_state(const States& states, std::span<const float> gradient) {
  return {states[0], states[1], states[2], gradient};
}

/// Of its references.
AdamState adam_state(std::span<float> references, std::span<const float> gradient) {
  const std::size_t count = gradient.size();
  return {references.first(count), references.subspan(count, count),
          references.subspan(2 * count, count), gradient};
}

class UpdateRun final : public WorkloadRun {
 public:
  UpdateRun(const Job& job, std::uint32_t thread) : job_(job), thread_(thread) {}

  Result<void> prepare(RunControl& control) override;
  Result<void> run(RunControl& control, JobResult& result) override;

 private:
  Result<void> declare_states();
  Result<void> declare_chunk(NamespaceId space, std::size_t number, std::uint64_t elements);
  Result<void> write_contents(const RunControl& control);
  Result<void> write_states(const Chunk& chunk, std::span<const float> expected);
  Result<void> step();
  Result<void> step_chunk(std::size_t number, const AdamStep& adam);
  void announce(std::size_t number);
  std::span<const float> gradient(std::size_t chunk);
  void compare(std::size_t chunk, const States& states, const AdamStep& step);
  float gradient_of(std::size_t chunk) const {
    return 1e-3F * static_cast<float>((chunk * 7 + step_ * 3) % 31) - 1e-2F;
  }

  const Job job_;
  const std::uint32_t thread_;
  SwapSession session_;
  std::vector<Chunk> chunks_;
  std::vector<std::vector<float>> expected_;  // references by chunk; empty without verify=
  std::vector<float> gradient_;
  Adam adam_;
  std::optional<SwapMeter> meter_;
  std::uint64_t step_ = 0;
  std::optional<Error> wrong_;  // the first element that is not what it must be
};

Result<void> UpdateRun::declare_states() {
  const Result<TrainingSetup> setup = job_model(job_);
  PENSTOCK_TRY(setup);
  Result<SwapSession> session = open_swap_session(job_);
  if (session.has_error()) {
    return std::move(session).error();
  }
  session_ = std::move(session).value();
  const Result<NamespaceId> space =
      session_.engine->open_namespace(fmt::format("{}.{}", job_.name, thread_), session_.paths);
  PENSTOCK_TRY(space);
  for (const SubGroup& group : setup->sub_groups()) {
    for (std::uint64_t at = 0; at < group.elements; at += kStateChunkElements) {
      PENSTOCK_TRY(declare_chunk(*space, chunks_.size(),
                                 std::min(kStateChunkElements, group.elements - at)));
    }
  }
  if (chunks_.empty()) {
    return fault(Fault::kConfiguration,
                 fmt::format("job {}: {} has no parameters", job_.name, job_.inventory));
  }
  return {};
}

Result<void> UpdateRun::declare_chunk(NamespaceId space, std::size_t number,
                                      std::uint64_t elements) {
  Chunk& chunk = chunks_.emplace_back();
  chunk.elements = elements;
  for (std::size_t state = 0; state < kStates; ++state) {
    const Result<TensorId> tensor =
        session_.engine->declare(space, {fmt::format("state {}/{}", state, number),
                                         DType::kF32,
                                         {elements},
                                         state == 0 ? Role::kMaster : Role::kMoment});
    PENSTOCK_TRY(tensor);
    chunk.tensors[state] = *tensor;
  }
  return {};
}

Result<void> UpdateRun::write_contents(const RunControl& control) {
  for (std::size_t chunk = 0; chunk < chunks_.size() && !control.stop; ++chunk) {
    const std::uint64_t count = references(chunks_[chunk].elements);
    std::vector<float> expected(kStates * count);  // the moments are zero
    for (std::uint64_t i = 0; i < count; ++i) {
      expected[i] = 1e-2F * static_cast<float>((chunk * 131 + i) % 997) - 5.0F;
    }
    PENSTOCK_TRY(write_states(chunks_[chunk], expected));
    if (job_.verify) {
      expected_.push_back(std::move(expected));
    }
  }
  PENSTOCK_TRY(session_.engine->flush());
  return session_.engine->plan();
}

Result<void> UpdateRun::write_states(const Chunk& chunk, std::span<const float> expected) {
  const std::uint64_t count = references(chunk.elements);
  for (std::size_t state = 0; state < kStates; ++state) {
    const Result<Lease> lease = session_.engine->allocate(chunk.tensors[state]);
    PENSTOCK_TRY(lease);
    auto* element = reinterpret_cast<float*>(lease->data());
    for (std::uint64_t i = 0; i < chunk.elements; ++i) {
      *element++ = expected[state * count + reference_of(i, chunk.elements)];
    }
    static_cast<void>(session_.engine->commit(*lease));  // flush() returns what fails
  }
  return {};
}

Result<void> UpdateRun::prepare(RunControl& control) {
  PENSTOCK_TRY(declare_states());
  gradient_.resize(kStateChunkElements);
  PENSTOCK_TRY(write_contents(control));
  meter_.emplace(*session_.engine, *session_.device, control);
  meter_->begin();
  PENSTOCK_TRY(step());  // the engine learns the order,
  PENSTOCK_TRY(step());  // and that it comes again
  std::uint64_t elements = 0;
  for (const Chunk& chunk : chunks_) {
    elements += chunk.elements;
  }
  control.read_bytes = 0;
  control.write_bytes = 0;
  control.total_bytes = job_.time_based ? 0 : elements * 2 * kStates * sizeof(float) * job_.loops;
  return {};
}

Result<void> UpdateRun::run(RunControl& control, JobResult& result) {
  RunLength length(job_, control, *session_.device);
  while (length.ramps_up()) {
    PENSTOCK_TRY(step());
  }
  PENSTOCK_TRY(session_.engine->flush());  // writes of before are not counted
  meter_->begin();
  length.begin();
  Result<void> done;
  while (done.has_value() && length.begins_loop()) {
    done = step();
  }
  if (done.has_value()) {
    done = session_.engine->flush();
  }
  meter_->report(result);
  result.interrupted = control.stop;
  return done;
}

/// A whole step always: half of one would be no state of a training.
Result<void> UpdateRun::step() {
  ++step_;
  const AdamStep adam = adam_.step(step_, AdamOptions{});
  for (std::size_t number = 0; number < chunks_.size(); ++number) {
    PENSTOCK_TRY(step_chunk(number, adam));
  }
  if (wrong_) {
    return *wrong_;
  }
  return {};
}

/// As the step under DeepSpeed goes.
Result<void> UpdateRun::step_chunk(std::size_t number, const AdamStep& adam) {
  const std::uint64_t asked_ns = meter_->note_asked();
  announce(number);
  std::array<Ticket, kStates> reads;
  std::array<Lease, kStates> leases;
  States states;
  for (std::size_t state = 0; state < kStates; ++state) {
    reads[state] = session_.engine->get(chunks_[number].tensors[state], Access::kUpdate);
  }
  std::uint64_t bytes = 0;
  for (std::size_t state = 0; state < kStates; ++state) {
    Result<Lease> lease = reads[state].lease();
    PENSTOCK_TRY(lease);
    leases[state] = std::move(*lease);
    bytes += leases[state].bytes();
    states[state] = {reinterpret_cast<float*>(leases[state].data()), chunks_[number].elements};
  }
  meter_->note_read(asked_ns, bytes);
  adam.update(adam_state(states, gradient(number)));
  if (job_.compute) {
    session_.device->compute(compute_ns(*job_.compute, bytes), job_.compute->spins);
  }
  if (job_.verify) {
    compare(number, states, adam);
  }
  for (const Lease& lease : leases) {
    static_cast<void>(session_.engine->commit(lease));  // what fails is said by check()
  }
  meter_->note_written(bytes);
  return session_.engine->check();
}

void UpdateRun::announce(std::size_t number) {
  const std::size_t last = number + kStateChunksAhead;
  for (std::size_t next = number == 0 ? 0 : last; next <= last && next < chunks_.size(); ++next) {
    session_.engine->prefetch(chunks_[next].tensors);
  }
}

std::span<const float> UpdateRun::gradient(std::size_t chunk) {
  const auto part = std::span(gradient_).first(chunks_[chunk].elements);
  std::ranges::fill(part, gradient_of(chunk));
  return part;
}

void UpdateRun::compare(std::size_t chunk, const States& states, const AdamStep& step) {
  const std::uint64_t elements = chunks_[chunk].elements;
  const std::uint64_t count = references(elements);
  std::vector<float>& expected = expected_[chunk];
  step.update(adam_state(expected, std::vector<float>(count, gradient_of(chunk))));
  for (std::size_t state = 0; state < kStates; ++state) {
    for (std::uint64_t i = 0; i < elements && !wrong_; ++i) {
      const float right = expected[state * count + reference_of(i, elements)];
      if (states[state][i] != right) {
        wrong_ = system_error(
            EILSEQ,
            fmt::format("element {} of state {} of chunk {} is {} after step {} and must be {}", i,
                        state, chunk, states[state][i], step_, right));
      }
    }
  }
}

}  // namespace

std::unique_ptr<WorkloadRun> make_update_run(const Job& job, std::uint32_t thread) {
  return std::make_unique<UpdateRun>(job, thread);
}

}  // namespace penstock::bench
