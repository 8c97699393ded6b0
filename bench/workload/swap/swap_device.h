#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "swap/swap_engine.h"

namespace penstock::bench {

/// Where an engine's stores live, and whose time counts: the machine's files and clock, or a drive
/// in virtual time. Outlives the engine; used by its one thread, but for now_ns().
class SwapDevice {
 public:
  virtual ~SwapDevice() = default;
  SwapDevice() = default;
  SwapDevice(const SwapDevice&) = delete;
  SwapDevice& operator=(const SwapDevice&) = delete;

  /// Points an engine's options here; one engine a device.
  virtual void furnish(SwapEngineOptions& options) = 0;
  virtual std::uint64_t now_ns() const = 0;
  /// So much time passes as the training's own work; the drive works on meanwhile.
  virtual void compute(std::uint64_t ns, bool spins) = 0;
  /// Nothing that the CPU does takes time here, so that its time is no figure.
  virtual bool is_simulated() const = 0;
};

/// The one that a job asks for: its simulated drive in virtual time, or the same rates over real
/// files (SimulatedDrive::real_time), or the machine as it is. `stop` outlives it: true, and
/// compute() takes no more time of the machine's. Errors: no addresses for it.
Result<std::unique_ptr<SwapDevice>> make_swap_device(const std::optional<SimulatedDrive>& simulated,
                                                     const std::atomic<bool>& stop);

}  // namespace penstock::bench
