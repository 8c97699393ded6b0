// What proving contents costs: CPU time a GB of tensors that are written to a drive and read again
// through SwapEngine, all threads of the process counted. 256 MiB in tensors of 16 MiB, each
// written from a slot and read into one; writing includes filling the memory.
//
//   PENSTOCK_TMP=/nvme0 build/release/bench/micro/bench_integrity --benchmark_repetitions=7

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "alloc/bytes.h"
#include "bench/measure/cpu_clock.h"
#include "swap/swap_engine.h"

namespace penstock {
namespace {

constexpr std::uint64_t kTensorBytes = 16 * kMiB;
constexpr std::uint64_t kTensors = 16;

SwapEngineOptions options_of(IntegrityLevel level) {
  SwapEngineOptions options;
  options.config.integrity = level;
  Budgets budgets;
  budgets.max_pinned_bytes = 8 * kTensorBytes;
  budgets.max_pinned_given = true;
  budgets.ram_given = true;
  budgets.quarter_bytes = kGiB;
  options.budgets = budgets;
  return options;
}

void write_all(SwapEngine& engine, const std::vector<TensorId>& tensors) {
  for (const TensorId tensor : tensors) {
    const Lease lease = engine.allocate(tensor).value();
    std::memset(lease.data(), static_cast<int>(to_number(tensor)), lease.bytes());
    engine.commit(lease).wait().value();
  }
  engine.flush().value();
}

void read_all(SwapEngine& engine, const std::vector<TensorId>& tensors) {
  for (const TensorId tensor : tensors) {
    benchmark::DoNotOptimize(engine.get(tensor).lease().value());
  }
}

void prove(benchmark::State& state, IntegrityLevel level) {
  const char* const directory = std::getenv("PENSTOCK_TMP");
  const auto engine = SwapEngine::open(options_of(level)).value();
  const NamespaceId space =
      engine->open_namespace("cost", {{directory == nullptr ? "." : directory, {}, {}}}).value();
  std::vector<TensorId> tensors;
  for (std::uint64_t i = 0; i < kTensors; ++i) {
    tensors.push_back(
        engine->declare(space, {fmt::format("t{}", i), DType::kU8, {kTensorBytes}, Role::kParam})
            .value());
  }
  engine->plan().value();
  write_all(*engine, tensors);  // the slots' pages and the file's space are there then
  double write_seconds = 0;
  double read_seconds = 0;
  for ([[maybe_unused]] auto _ : state) {
    const double before = bench::cpu_time(RUSAGE_SELF).seconds();
    write_all(*engine, tensors);
    const double written = bench::cpu_time(RUSAGE_SELF).seconds();
    read_all(*engine, tensors);
    read_seconds += bench::cpu_time(RUSAGE_SELF).seconds() - written;
    write_seconds += written - before;
  }
  const double gigabytes = static_cast<double>(state.iterations()) * kTensors * kTensorBytes / 1e9;
  state.counters["write_cpu_s_per_gb"] = write_seconds / gigabytes;
  state.counters["read_cpu_s_per_gb"] = read_seconds / gigabytes;
}

BENCHMARK_CAPTURE(prove, off, IntegrityLevel::kOff)->UseRealTime();
BENCHMARK_CAPTURE(prove, sampled, IntegrityLevel::kSampled)->UseRealTime();
BENCHMARK_CAPTURE(prove, full, IntegrityLevel::kFull)->UseRealTime();

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
