// What pinning costs and how exact it is: milliseconds to register memory with the ring, with a
// device, and with both, and what the kernel counts as pinned then. One line of JSON a size.
//
//   pinning_cost none|cuda:0|hip:0|host:0 [BYTES…]
//
// BYTES: default 64MiB 1GiB. Medians of nine, each of fresh pages that are there already, so that
// their making is not counted.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "alloc/pin_hook.h"
#include "io/io_queue.h"
#include "swap/device/device_runtime.h"

namespace {

using namespace penstock;

constexpr int kTimes = 9;

// VmPin and VmLck of /proc/self/status.
std::uint64_t pinned_by_kernel() {
  std::ifstream status("/proc/self/status");
  std::uint64_t bytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmPin:" || word == "VmLck:") {
      std::uint64_t kib = 0;
      status >> kib;
      bytes += kib * kKiB;
    }
  }
  return bytes;
}

PinHook ring_hook(IoQueue& queue) {
  return {.pin = [&queue](std::span<std::byte> memory) { return queue.register_memory(memory); },
          .unpin = [&queue](std::span<std::byte> memory) { queue.unregister_memory(memory); }};
}

struct Cost {
  double pin_ms = 0;
  double unpin_ms = 0;
  std::uint64_t counted_bytes = 0;
};

template <class F>
double timed_ms(F&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Result<Cost> measure(const std::vector<PinHook>& hooks, std::uint64_t bytes) {
  std::vector<double> pins;
  std::vector<double> unpins;
  Cost cost;
  for (int time = 0; time < kTimes; ++time) {
    const Result<Memory> memory =
        PageSource::make({.huge_pages = HugePages::kReserved})->allocate(bytes);
    PENSTOCK_TRY(memory);
    populate_pages(memory->span());
    const std::uint64_t before = pinned_by_kernel();
    Result<void> pinned;
    pins.push_back(timed_ms([&] {
      for (const PinHook& hook : hooks) {
        pinned = pinned.has_error() ? pinned : hook.pin(memory->span());
      }
    }));
    PENSTOCK_TRY(pinned);
    cost.counted_bytes = pinned_by_kernel() - before;
    unpins.push_back(timed_ms([&] {
      for (const PinHook& hook : hooks) {
        hook.unpin(memory->span());
      }
    }));
  }
  cost.pin_ms = median(std::move(pins));
  cost.unpin_ms = median(std::move(unpins));
  return cost;
}

std::string line(const char* who, const Result<Cost>& cost) {
  if (cost.has_error()) {
    return fmt::format(R"("{}": {{"reason": "{}"}})", who, cost.error().message);
  }
  return fmt::format(R"("{}": {{"pin_ms": {:.3f}, "unpin_ms": {:.3f}, "counted_bytes": {}}})", who,
                     cost->pin_ms, cost->unpin_ms, cost->counted_bytes);
}

Result<void> run(const std::string& device_name, const std::vector<std::uint64_t>& sizes) {
  const Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(EngineKind::kAuto, {});
  PENSTOCK_TRY(queue);
  std::shared_ptr<Device> device;
  if (device_name != "none") {
    Result<std::shared_ptr<Device>> opened = open_device(device_name);
    PENSTOCK_TRY(opened);
    device = std::move(*opened);
  }
  for (const std::uint64_t bytes : sizes) {
    const PinHook ring = ring_hook(**queue);
    std::string text =
        fmt::format(R"({{"bytes": {}, {})", bytes, line("ring", measure({ring}, bytes)));
    if (device) {
      const PinHook copies = pinned_for(std::array{device}).front();
      text += ", " + line("device", measure({copies}, bytes)) + ", " +
              line("both", measure({ring, copies}, bytes));
    }
    fmt::print("{}}}\n", text);
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::uint64_t> sizes;
  for (int i = 2; i < count; ++i) {
    const Result<std::uint64_t> bytes = parse_bytes(arguments[i]);
    if (bytes.has_error()) {
      fmt::print(stderr, "pinning_cost: {}\n", bytes.error().message);
      return 2;
    }
    sizes.push_back(*bytes);
  }
  if (count < 2) {
    fmt::print(stderr, "usage: pinning_cost none|cuda:0|hip:0|host:0 [BYTES...]\n");
    return 2;
  }
  if (sizes.empty()) {
    sizes = {64 * kMiB, kGiB};
  }
  const Result<void> done = run(arguments[1], sizes);
  if (done.has_error()) {
    fmt::print(stderr, "pinning_cost: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
