#include "bindings/deepspeed/process_memory.h"

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock {
namespace {

// Measured with torch 2.13 (CPU), transformers 5.23 and DeepSpeed 0.19.8 (docs/BENCHMARKS.md).
// It grows with the steps, by what allocators keep: as measured after ten.
constexpr std::uint64_t kRuntimeBytes = 650'000'000;
// TRL's loss multiplies by the head's weight itself: as measured, two copies of it come and go.
constexpr std::uint64_t kHeadCopies = 2;

bool bounds_bucket(const TrainingSetup& setup) {
  return setup.world_size == 1 &&
         (setup.swaps_optimizer() || setup.param_device() == OffloadDevice::kNvme);
}

// Stage 3 collects gradients here before it reduces them. One that the bucket has no room for stays
// where it is until its turn comes.
std::uint64_t gradient_bucket_bytes(const TrainingSetup& setup) {
  const DeepSpeedConfig& config = setup.config.deepspeed;
  const std::uint64_t bound =
      bounds_bucket(setup) ? kOneRankBucketElements : config.reduce_bucket_size;
  std::uint64_t elements = 0;
  std::uint64_t largest = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    elements += setup.trains(info) ? info.elements() : 0;
    largest = std::max(largest, setup.trains(info) ? info.elements() : 0);
  }
  const std::uint64_t bucket = std::min({elements, bound, config.reduce_bucket_size});
  return (bucket + (largest > bucket ? largest : 0)) *
         dtype_bytes(config.gradient_dtype.value_or(config.held_dtype()));
}

std::uint64_t largest_bytes(const TrainingSetup& setup) {
  std::uint64_t largest = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    largest = std::max(largest, packed_bytes(setup.held_dtype(info), info.elements()));
  }
  return largest;
}

std::uint64_t loading_bytes(const TrainingSetup& setup, const std::vector<MemoryRow>& table) {
  const std::uint64_t kept = add_saturating(bytes_of(table, Component::kParameters, Storage::kRam),
                                            bytes_in(table, Storage::kPinned));
  return add_saturating(setup.inventory.bytes() + largest_bytes(setup), kept);
}

}  // namespace

ProcessMemory expect_process_memory(const TrainingSetup& setup, const std::vector<MemoryRow>& table,
                                    bool on_cpu) {
  ProcessMemory memory;
  memory.planned_bytes =
      add_saturating(bytes_in(table, Storage::kRam), bytes_in(table, Storage::kPinned));
  if (setup.has_config) {
    memory.runtime_bytes = kRuntimeBytes;
    memory.loading_bytes = loading_bytes(setup, table);
  }
  if (on_cpu && setup.has_config) {
    // A single rank gathers partitions where they lie.
    const std::uint64_t gathered =
        setup.world_size == 1 ? bytes_of(table, Component::kBuffers, Storage::kDevice) : 0;
    const std::uint64_t transient = (setup.stage == 3 ? gradient_bucket_bytes(setup) : 0) +
                                    (setup.generates ? kHeadCopies * largest_bytes(setup) : 0);
    memory.device_bytes = add_saturating(bytes_in(table, Storage::kDevice) - gathered, transient);
  }
  return memory;
}

}  // namespace penstock
