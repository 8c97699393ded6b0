// What pinning costs and how exact it is: registering memory with the ring, with a device
// (PENSTOCK_DEVICE=cuda:0), and with both; giving back, and what the kernel counts as pinned then
// (VmPin and VmLck). The pages are there already: their making is not counted.
//
//   build/release/bench/micro/bench_pinning

#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "alloc/pin_hook.h"
#include "io/io_queue.h"
#include "swap/device/device_runtime.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

double pinned_by_kernel() {
  std::ifstream status("/proc/self/status");
  double bytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmPin:" || word == "VmLck:") {
      double kib = 0;
      status >> kib;
      bytes += kib * 1024;
    }
  }
  return bytes;
}

void pin(benchmark::State& state, bool with_ring, bool with_device) {
  const auto queue = IoQueue::start(EngineKind::kAuto, {}).value();
  std::vector<PinHook> hooks;
  if (with_ring) {
    hooks.push_back({.pin = [&queue](auto memory) { return queue->register_memory(memory); },
                     .unpin = [&queue](auto memory) { queue->unregister_memory(memory); }});
  }
  std::shared_ptr<Device> device;
  if (with_device) {
    const char* const name = std::getenv("PENSTOCK_DEVICE");
    const Result<std::shared_ptr<Device>> opened = open_device(name == nullptr ? "host:0" : name);
    if (opened.has_error()) {
      state.SkipWithError(opened.error().message.c_str());
      return;
    }
    device = *opened;
    hooks.push_back(pinned_for(std::array{device}).front());
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(state.range(0)) * kMiB;
  double unpin_seconds = 0;
  const Memory memory =
      PageSource::make({.huge_pages = HugePages::kReserved})->allocate(bytes).value();
  populate_pages(memory.span());
  for ([[maybe_unused]] auto _ : state) {
    const double before = pinned_by_kernel();
    const Clock::time_point begin = Clock::now();
    for (const PinHook& hook : hooks) {
      if (const Result<void> pinned = hook.pin(memory.span()); pinned.has_error()) {
        state.SkipWithError(pinned.error().message.c_str());
        return;
      }
    }
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
    state.counters["kernel_counts_bytes"] = pinned_by_kernel() - before;
    const Clock::time_point pinned = Clock::now();
    for (const PinHook& hook : hooks) {
      hook.unpin(memory.span());
    }
    unpin_seconds += std::chrono::duration<double>(Clock::now() - pinned).count();
  }
  state.counters["unpin_ms"] = unpin_seconds * 1e3 / static_cast<double>(state.iterations());
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("MiB")->Arg(64)->Arg(1024)->Iterations(9)->UseManualTime()->Unit(
      benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(pin, ring, true, false)->Apply(sizes);
BENCHMARK_CAPTURE(pin, device, false, true)->Apply(sizes);
BENCHMARK_CAPTURE(pin, both, true, true)->Apply(sizes);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
