// What a request costs us: from submission to its callback over the engine that moves nothing, on
// one thread through IoEngine, and from another thread through IoQueue and its loop. Goal: at most
// 2 us for a request of 1 MiB.
//
//   build/release/bench/micro/bench_submission --benchmark_min_time=1

#include <benchmark/benchmark.h>

#include <atomic>
#include <deque>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "io/file.h"
#include "io/io_queue.h"
#include "io/null_engine.h"

namespace penstock {
namespace {

constexpr std::uint32_t kDepth = 32;
constexpr const char* kAnyFile = "/proc/self/exe";

// So many reads of 1 MiB; a counter hears of each that ends.
class Batch {
 public:
  explicit Batch(std::size_t count) : memory_(PageSource::make()->allocate(kMiB).value()) {
    for (std::size_t number = 0; number < count; ++number) {
      IoOp& op = ops_.emplace_back();
      op.file = &file_;
      op.data = memory_.data();
      op.bytes = kMiB;
      op.context = &done_;
      op.on_complete = [](IoOp& over) noexcept {
        auto& done = *static_cast<std::atomic<std::uint64_t>*>(over.context);
        done.fetch_add(1, std::memory_order_release);
        done.notify_one();
      };
      all_.push_back(&op);
    }
  }
  std::deque<IoOp>& ops() { return ops_; }
  std::span<IoOp* const> all() const { return all_; }
  std::uint64_t done() const { return done_.load(std::memory_order_acquire); }
  void wait_for(std::uint64_t target) const {
    for (std::uint64_t now = done(); now < target; now = done()) {
      done_.wait(now, std::memory_order_acquire);
    }
  }

 private:
  File file_ = File::open(kAnyFile, File::Access::kRead, DirectMode::kBuffered).value();
  Memory memory_;
  std::atomic<std::uint64_t> done_{0};
  std::deque<IoOp> ops_;
  std::vector<IoOp*> all_;
};

void through_an_engine(benchmark::State& state) {
  const auto engine = make_null_engine({.depth = kDepth}).value();
  Batch batch(static_cast<std::size_t>(state.range(0)));
  std::uint64_t submitted = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (IoOp& op : batch.ops()) {
      engine->submit(op);
    }
    submitted += batch.ops().size();
    while (batch.done() < submitted) {
      engine->poll();
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(submitted));
}

void through_a_queue(benchmark::State& state) {
  const auto queue = IoQueue::start(EngineKind::kNull, {.depth = kDepth}).value();
  Batch batch(static_cast<std::size_t>(state.range(0)));
  std::uint64_t submitted = 0;
  for ([[maybe_unused]] auto _ : state) {
    queue->submit(batch.all());
    submitted += batch.ops().size();
    batch.wait_for(submitted);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(submitted));
}

// One alone is woken up for; of many that come together most are found.
BENCHMARK(through_an_engine)->ArgName("together")->Arg(1)->Arg(32)->Arg(256);
BENCHMARK(through_a_queue)->ArgName("together")->Arg(1)->Arg(32)->Arg(256)->UseRealTime();

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
