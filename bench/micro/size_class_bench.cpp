// What size classes cost: finding the class of a size, in a pool that is asked for another size
// each time, and making classes from the sizes of a model.
//
//   build/release/bench/micro/bench_size_class --benchmark_min_time=1

#include <benchmark/benchmark.h>

#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "alloc/size_class.h"

namespace penstock {
namespace {

// Look-up, lease and return: less what bench_buffer_pool says of one class, the look-up.
void look_up(benchmark::State& state) {
  const auto classes = static_cast<std::uint64_t>(state.range(0));
  BufferPoolOptions options;
  options.pinned = PageSource::make();
  BufferPool pool(options);
  std::vector<ClassPlan> plan;
  for (std::uint64_t number = 1; number <= classes; ++number) {
    plan.push_back({number * 64 * kKiB, 1});
  }
  pool.shape(plan).value();
  std::uint64_t at = 0;
  for ([[maybe_unused]] auto _ : state) {
    at = at * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t number = (at >> 32) % classes + 1;
    const std::optional<Buffer> buffer = pool.try_acquire_slot(number * 64 * kKiB - 100);
    benchmark::DoNotOptimize(buffer->data());
  }
  state.SetItemsProcessed(state.iterations());
}

void make_classes(benchmark::State& state) {
  std::vector<SizeCount> sizes;
  for (std::int64_t number = 0; number < state.range(0); ++number) {
    sizes.push_back({kMiB + static_cast<std::uint64_t>(number * 7919 % 100'003) * 512, 3});
  }
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(make_size_classes(sizes));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(look_up)->ArgName("classes")->Arg(1)->Arg(8)->Arg(64);
BENCHMARK(make_classes)->ArgName("sizes")->Arg(10)->Arg(1000)->Arg(100'000);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
