#include "bench/tune/drive_mix.h"

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

// So many at once as the engine has bytes in flight: 32 MiB (io/io_engine.h).
constexpr std::uint64_t kRequestBytesMax = kMiB;

}  // namespace

double DriveMix::read_share() const noexcept {
  const double moved = static_cast<double>(step_read_bytes) + static_cast<double>(step_write_bytes);
  return moved == 0 ? 1 : static_cast<double>(step_read_bytes) / moved;
}

std::uint64_t DriveMix::request_bytes() const noexcept {
  const std::uint64_t mean = align_up(bytes / std::max<std::uint64_t>(tensors, 1), kBlockBytes);
  return std::clamp<std::uint64_t>(mean, kBlockBytes, kRequestBytesMax);
}

Result<DriveMix> drive_mix(std::span<const PlanTensor> tensors) {
  DriveMix mix;
  for (const PlanTensor& tensor : tensors) {
    if (tensor.swappable && tensor.bytes != 0) {
      ++mix.tensors;
      mix.bytes += tensor.bytes;
      mix.step_read_bytes += tensor.bytes * tensor.reads_per_step;
      mix.step_write_bytes += tensor.bytes * tensor.writes_per_step;
    }
  }
  if (mix.tensors == 0) {
    return fault(Fault::kConfiguration,
                 "nothing of this model goes to a drive under this configuration, so there is "
                 "nothing to tune: set zero_optimization.offload_param.device (or "
                 "offload_optimizer.device) to \"nvme\" with stage 3, and mind that tensors below "
                 "1 MiB stay in memory");
  }
  return mix;
}

}  // namespace penstock::bench
