#include "bench/workload/swap/optimizer_step.h"

#include <fmt/format.h>

#include <utility>

namespace penstock {
namespace {

std::span<float> floats(const Lease& lease) {
  return {reinterpret_cast<float*>(lease.data()),
          static_cast<std::size_t>(lease.bytes() / sizeof(float))};
}

}  // namespace

OptimizerStep::Reads OptimizerStep::begin(const StateChunk& chunk) {
  return {engine_.get(chunk.master, Access::kUpdate), engine_.get(chunk.exp_avg, Access::kUpdate),
          engine_.get(chunk.exp_avg_sq, Access::kUpdate)};
}

Result<void> OptimizerStep::finish(const Reads& reads, std::size_t chunk, std::uint64_t step,
                                   const Gradient& gradient, const Updated& updated) {
  std::array<Lease, kStates> leases;
  for (std::size_t i = 0; i < kStates; ++i) {
    Result<Lease> lease = reads[i].lease();
    PENSTOCK_TRY(lease);
    leases[i] = std::move(lease).value();
  }
  const AdamWState state{floats(leases[0]), floats(leases[1]), floats(leases[2]), gradient(chunk)};
  const std::size_t count = state.master.size();
  if (state.exp_avg.size() != count || state.exp_avg_sq.size() != count ||
      state.gradient.size() != count) {
    return fault(
        Fault::kWrongSize,
        fmt::format("chunk {} has {} masters, {} and {} moments and {} gradients", chunk, count,
                    state.exp_avg.size(), state.exp_avg_sq.size(), state.gradient.size()));
  }
  adam_.update(state, step);
  if (updated) {
    updated(chunk, state);
  }
  for (const Lease& lease : leases) {
    static_cast<void>(engine_.commit(lease));  // what fails is told by check()
  }
  return engine_.check();
}

Result<void> OptimizerStep::run(std::span<const StateChunk> chunks, std::uint64_t step,
                                const Gradient& gradient, const Updated& updated) {
  if (chunks.empty()) {
    return {};
  }
  Reads next = begin(chunks.front());
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const Reads reads = std::move(next);
    if (chunk + 1 < chunks.size()) {
      next = begin(chunks[chunk + 1]);
    }
    PENSTOCK_TRY(finish(reads, chunk, step, gradient, updated));
  }
  return {};
}

}  // namespace penstock
