// What a place in a file costs: one extent is freed and another one allocated, in a file that holds
// so many, of sizes that repeat as a model's do.
//
//   build/release/bench/micro/bench_extent --benchmark_min_time=1

#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/extent_allocator.h"

namespace penstock {
namespace {

void replace_an_extent(benchmark::State& state) {
  constexpr std::array<std::uint64_t, 5> kSizes{4 * kKiB, 2 * kMiB, 4 * kMiB, 6 * kMiB, 300 * kMiB};
  const auto held = static_cast<std::uint64_t>(state.range(0));
  // Room for all and a tenth more.
  ExtentAllocator allocator(held * 70 * kMiB, kBlockBytes);
  std::vector<Extent> extents;
  for (std::uint64_t number = 0; number < held; ++number) {
    extents.push_back(*allocator.allocate(kSizes[number % kSizes.size()]));
  }
  std::uint64_t at = 0;
  for ([[maybe_unused]] auto _ : state) {
    at = at * 6364136223846793005U + 1442695040888963407U;
    Extent& extent = extents[(at >> 32) % held];
    const std::uint64_t bytes = extent.bytes;
    allocator.release(extent);
    extent = *allocator.allocate(bytes);
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(replace_an_extent)->ArgName("held")->Arg(100)->Arg(10'000)->Arg(1'000'000);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
