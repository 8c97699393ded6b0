// What a step of the scheduler costs: a use, memory of what was used before given back, and what is
// read next decided, with memory for so many tensors of a training step that repeats itself.
//
//   build/release/bench/micro/bench_prefetch_scheduler --benchmark_min_time=1

#include <benchmark/benchmark.h>

#include <vector>

#include "swap/schedule/prefetch_scheduler.h"

namespace penstock {
namespace {

constexpr std::uint64_t kTensors = 300;

// Slots of one size over a drive that takes no time.
class Slots final : public PrefetchEnvironment {
 public:
  explicit Slots(std::size_t count) : free_(count), in_memory_(kTensors, false) {}

  Answer begin_ahead(TensorId tensor, bool) override {
    const std::uint64_t number = to_number(tensor);
    if (in_memory_[number]) {
      return Answer::kNothingToDo;
    }
    if (free_ == 0) {
      return Answer::kStop;
    }
    --free_;
    in_memory_[number] = true;
    return Answer::kBegun;
  }
  void give_back(TensorId tensor) {
    const std::uint64_t number = to_number(tensor);
    free_ += in_memory_[number] ? 1U : 0U;
    in_memory_[number] = false;
  }

 private:
  std::size_t free_;
  std::vector<bool> in_memory_;
};

// Forward and backward: each tensor comes twice a step, in opposite orders.
TensorId use(std::uint64_t number) {
  const std::uint64_t place = number % (2 * kTensors);
  return TensorId{place < kTensors ? place : 2 * kTensors - 1 - place};
}

void step(benchmark::State& state) {
  PrefetchScheduler scheduler;
  Slots slots(static_cast<std::size_t>(state.range(0)));
  std::uint64_t number = 0;
  const auto one_use = [&] {
    const TensorId tensor = use(number++);
    scheduler.record(tensor);
    slots.give_back(tensor);
    return scheduler.run(slots);
  };
  while (number < 4 * kTensors) {
    one_use();
  }
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(one_use());
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(step)->ArgName("slots")->Arg(4)->Arg(32)->Arg(256);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
