// What a lease costs: acquire and release of a free slot by one thread.
//
// One iteration is a batch of 64 pairs, timed as a whole, since a single pair is shorter than what
// a clock can tell; `p50_ns` and `p99_ns` are nanoseconds a pair over all batches of a run. Goal:
// p99 of at most 100 ns. Not a goal: what happens under contention (tests/alloc proves its
// fairness).
//
//   build/release/bench/micro/bench_buffer_pool --benchmark_min_time=2

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "alloc/page_source.h"

namespace penstock {
namespace {

constexpr int kPairs = 64;  // a batch

double percentile(std::vector<double>& values, double share) {
  const auto place = static_cast<std::size_t>(static_cast<double>(values.size() - 1) * share);
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(place));
  return values[place];
}

// Times batches of `pair`, which leases from `pool` and gives back.
template <class Pair>
void time_batches(benchmark::State& state, Pair pair) {
  // Reference counts are not atomic before a process has its second thread; an engine always has.
  std::thread([] {}).join();
  std::vector<double> pair_ns;
  pair_ns.reserve(1 << 20);
  for ([[maybe_unused]] auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    for (int count = 0; count < kPairs; ++count) {
      pair();
    }
    const std::chrono::duration<double> batch = std::chrono::steady_clock::now() - begin;
    state.SetIterationTime(batch.count());
    pair_ns.push_back(batch.count() * 1e9 / kPairs);
  }
  state.SetItemsProcessed(state.iterations() * kPairs);
  state.counters["p50_ns"] = percentile(pair_ns, 0.50);
  state.counters["p99_ns"] = percentile(pair_ns, 0.99);
}

// As many classes as a small model has, of four slots each; the one in the middle is leased.
class Pool {
 public:
  explicit Pool(std::uint32_t classes) : bytes_(classes / 2 * kMiB + kMiB) {
    std::vector<ClassPlan> plan;
    for (std::uint32_t number = 1; number <= classes; ++number) {
      plan.push_back({number * kMiB, 4});
    }
    pool_.shape(plan).value();
  }
  BufferPool* operator->() { return &pool_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  static BufferPoolOptions options() {
    BufferPoolOptions options;
    options.pinned = PageSource::make();
    return options;
  }

  BufferPool pool_{options()};
  std::uint64_t bytes_;
};

void try_acquire_slot(benchmark::State& state) {
  Pool pool(static_cast<std::uint32_t>(state.range(0)));
  time_batches(state, [&pool] {
    const std::optional<Buffer> buffer = pool->try_acquire_slot(pool.bytes());
    benchmark::DoNotOptimize(buffer->data());
  });
}

void acquire(benchmark::State& state) {
  Pool pool(static_cast<std::uint32_t>(state.range(0)));
  time_batches(state, [&pool] {
    const Result<Buffer> buffer = pool->acquire(pool.bytes());
    benchmark::DoNotOptimize(buffer->data());
  });
}

BENCHMARK(try_acquire_slot)->ArgName("classes")->Arg(1)->Arg(8)->Arg(64)->UseManualTime();
BENCHMARK(acquire)->ArgName("classes")->Arg(1)->Arg(8)->Arg(64)->UseManualTime();

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
