// What `penstock plan` costs without reading the inventory: up to a million tensors, as a mixture
// of experts has them. Goal: a million in less than a second.
//
//   build/release/bench/micro/bench_plan --benchmark_min_time=1

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "alloc/bytes.h"
#include "bindings/deepspeed/swap_plan.h"

namespace penstock {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

// 997 shapes between 1 and 5 MiB; names as real models have them.
Inventory experts(std::int64_t tensors) {
  Inventory inventory;
  inventory.tensors.resize(static_cast<std::size_t>(tensors));
  for (std::size_t i = 0; i < inventory.tensors.size(); ++i) {
    TensorInfo& tensor = inventory.tensors[i];
    tensor.name = fmt::format("model.layers.{}.mlp.experts.{}.up_proj.weight", i / 1000, i % 1000);
    tensor.dtype = DType::kBF16;
    tensor.shape = {512, 1024 + i * 7919 % 997 * 4};
  }
  return inventory;
}

void plan(benchmark::State& state) {
  TrainingSetup setup;
  setup.inventory = experts(state.range(0));
  setup.has_config = true;
  setup.config = parse_config(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
      "offload_param": {"device": "nvme", "nvme_path": "/nvme0"},
      "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme0"}}})",
                              "the benchmark")
                     .value();
  setup.world_size = 8;
  setup.ranks_on_node = 8;
  MachineFacts machine;
  machine.mem_available_bytes = 256 * kGiB;
  for ([[maybe_unused]] auto _ : state) {
    state.PauseTiming();
    TrainingSetup copy = setup;
    state.ResumeTiming();
    SwapPlan made = make_swap_plan(std::move(copy), machine);
    benchmark::DoNotOptimize(made);
    state.PauseTiming();
    made = {};  // giving a million names back is not measured
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(plan)->ArgName("tensors")->Arg(1000)->Arg(kMillion)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
