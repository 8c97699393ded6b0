#include "bench/tune/drive_mix.h"

#include <numeric>

#include "alloc/bytes.h"
#include "bench/workload/swap/inventory_subset.h"

namespace penstock::bench {
namespace {

void append_cut(std::uint64_t bytes, Inventory& inventory) {
  const std::uint64_t parts = (bytes + kMixTensorBytesMax - 1) / kMixTensorBytesMax;
  for (std::uint64_t part = 0; part < parts; ++part) {
    const std::uint64_t part_bytes = align_up((bytes + parts - 1) / parts, kBlockBytes);
    inventory.tensors.push_back({{}, DType::kU8, {part_bytes}, Role::kParam});
  }
}

}  // namespace

std::uint64_t DriveMix::bytes() const noexcept {
  return std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0});
}

double DriveMix::read_share() const noexcept {
  const double moved = static_cast<double>(step_read_bytes) + static_cast<double>(step_write_bytes);
  return moved == 0 ? 1 : static_cast<double>(step_read_bytes) / moved;
}

Result<DriveMix> drive_mix(const std::vector<PlanTensor>& tensors, std::uint64_t bytes_max) {
  DriveMix mix;
  Inventory pieces;
  for (const PlanTensor& tensor : tensors) {
    if (tensor.swappable && tensor.bytes != 0) {
      mix.step_read_bytes += tensor.bytes * tensor.reads_per_step;
      mix.step_write_bytes += tensor.bytes * tensor.writes_per_step;
      append_cut(tensor.bytes, pieces);
    }
  }
  if (pieces.tensors.empty()) {
    return fault(Fault::kConfiguration,
                 "nothing of this model goes to a drive under this configuration, so there is "
                 "nothing to tune: set zero_optimization.offload_param.device (or "
                 "offload_optimizer.device) to \"nvme\" with stage 3, and mind that tensors below "
                 "1 MiB stay in memory");
  }
  for (const TensorInfo& piece : inventory_subset(pieces, bytes_max).tensors) {
    mix.tensors.push_back(piece.bytes());
  }
  return mix;
}

}  // namespace penstock::bench
