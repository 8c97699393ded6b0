// What proving a content costs, by level: bytes a second are of the content, not of what the level
// looks at.
//
//   build/release/bench/micro/bench_checksum --benchmark_min_time=1

#include <benchmark/benchmark.h>

#include <cstring>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "swap/transfer/checksum.h"

namespace penstock {
namespace {

void prove(benchmark::State& state, IntegrityLevel level) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0)) * kKiB;
  const Memory memory = PageSource::make()->allocate(bytes).value();
  std::memset(memory.data(), 7, bytes);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(checksum(level, memory.span()));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

// From caches, and from memory.
void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("KiB")->Arg(64)->Arg(1024)->Arg(64 * 1024);
}

BENCHMARK_CAPTURE(prove, off, IntegrityLevel::kOff)->Apply(sizes);
BENCHMARK_CAPTURE(prove, sampled, IntegrityLevel::kSampled)->Apply(sizes);
BENCHMARK_CAPTURE(prove, full, IntegrityLevel::kFull)->Apply(sizes);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
