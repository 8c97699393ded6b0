// What foretelling costs: recording a use of a training step that repeats itself, and looking so
// far ahead.
//
//   build/release/bench/micro/bench_access_trace --benchmark_min_time=1

#include <benchmark/benchmark.h>

#include "swap/schedule/access_trace.h"

namespace penstock {
namespace {

// Forward and backward over so many tensors: each comes twice a step, in opposite orders.
AccessTrace::Key use(std::uint64_t number, std::uint64_t tensors) {
  const std::uint64_t place = number % (2 * tensors);
  return place < tensors ? place : 2 * tensors - 1 - place;
}

void record(benchmark::State& state) {
  const auto tensors = static_cast<std::uint64_t>(state.range(0));
  AccessTrace trace;
  std::uint64_t number = 0;
  while (number < 4 * tensors) {
    trace.record(use(number++, tensors));
  }
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(trace.record(use(number++, tensors)));
  }
  state.SetItemsProcessed(state.iterations());
}

void look_ahead(benchmark::State& state) {
  constexpr std::uint64_t kTensors = 300;
  const auto ahead = static_cast<std::size_t>(state.range(0));
  AccessTrace trace;
  for (std::uint64_t number = 0; number < 4 * kTensors; ++number) {
    trace.record(use(number, kTensors));
  }
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t at = 0; at < ahead; ++at) {
      benchmark::DoNotOptimize(trace.upcoming(at));
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(record)->ArgName("tensors")->Arg(300)->Arg(20'000);
BENCHMARK(look_ahead)->ArgName("uses")->Arg(16)->Arg(256);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
