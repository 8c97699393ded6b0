#include "bench/workload/swap/swap_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/region_source.h"
#include "io/throttled_engine.h"
#include "io/virtual_engine.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

// What a simulated machine has free: plans must not depend on the one that simulates.
constexpr std::uint64_t kSimulatedMemoryBytes = 256 * kGiB;

// So long a sleep at most, so that a stop is seen soon.
constexpr std::chrono::milliseconds kSleepMax{50};

/// With rates its files are held to them.
class MachineDevice final : public SwapDevice {
 public:
  MachineDevice(const std::optional<DriveRates>& rates, const std::atomic<bool>& stop)
      : rates_(rates), stop_(stop) {}

  void furnish(SwapEngineOptions& options) override {
    if (rates_) {
      options.make_queue = [rates = *rates_](const IoEngineOptions& io) {
        return IoQueue::start(
            [rates](const IoEngineOptions& engine) { return make_throttled_engine(rates, engine); },
            io);
      };
    }
  }

  std::uint64_t now_ns() const override {
    const auto since = Clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }

  void compute(std::uint64_t ns, bool spins) override {
    Clock::time_point now = Clock::now();
    const Clock::time_point end = now + std::chrono::nanoseconds(ns);
    for (; now < end && !stop_.load(std::memory_order_relaxed); now = Clock::now()) {
      if (!spins) {
        std::this_thread::sleep_until(std::min(end, now + kSleepMax));
      }
    }
  }

  bool is_simulated() const override { return false; }

 private:
  const std::optional<DriveRates> rates_;
  const std::atomic<bool>& stop_;
};

class VirtualDevice final : public SwapDevice {
 public:
  VirtualDevice(const DriveRates& rates, std::shared_ptr<MemorySource> memory)
      : rates_(rates), memory_(std::move(memory)) {}

  void furnish(SwapEngineOptions& options) override {
    options.file_system = &drive_;
    options.pageable = memory_;
    options.mem_available_bytes = kSimulatedMemoryBytes;
    options.make_queue = [this](const IoEngineOptions& io) -> Result<std::unique_ptr<IoQueue>> {
      Result<std::unique_ptr<IoEngine>> engine = make_virtual_engine(clock_, drive_, rates_, io);
      PENSTOCK_TRY(engine);
      std::unique_ptr<IoQueue> queue = IoQueue::start_for_caller(std::move(engine).value());
      queue_ = queue.get();
      return queue;
    };
  }

  std::uint64_t now_ns() const override { return clock_.now_ns(); }

  /// What was submitted is begun now, and ends on the way.
  void compute(std::uint64_t ns, bool /*spins*/) override {
    const std::uint64_t end = clock_.now_ns() + ns;
    clock_.set_horizon_ns(end);
    while (clock_.now_ns() < end && queue_->step()) {
    }
    clock_.jump_to(end);
    clock_.set_horizon_ns(VirtualClock::kNoHorizon);
  }

  bool is_simulated() const override { return true; }

 private:
  DriveRates rates_;
  std::shared_ptr<MemorySource> memory_;
  VirtualClock clock_;
  VirtualDrive drive_;
  IoQueue* queue_ = nullptr;  // the engine's
};

}  // namespace

Result<std::unique_ptr<SwapDevice>> make_swap_device(const std::optional<SimulatedDrive>& simulated,
                                                     const std::atomic<bool>& stop) {
  std::optional<DriveRates> rates;
  if (simulated) {
    rates = {simulated->read_bytes_per_second, simulated->write_bytes_per_second,
             simulated->latency_ns};
  }
  if (!simulated || simulated->real_time) {
    return std::unique_ptr<SwapDevice>(std::make_unique<MachineDevice>(rates, stop));
  }
  Result<std::shared_ptr<RegionSource>> memory = RegionSource::make();
  PENSTOCK_TRY(memory);
  return std::unique_ptr<SwapDevice>(
      std::make_unique<VirtualDevice>(*rates, std::move(memory).value()));
}

}  // namespace penstock::bench
