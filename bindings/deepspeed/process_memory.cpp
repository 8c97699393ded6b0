#include "bindings/deepspeed/process_memory.h"

#include <algorithm>

#include "alloc/bytes.h"
#include "bindings/deepspeed/tied_names.h"

namespace penstock {
namespace {

// Measured with torch 2.13 (CPU), transformers 5.23 and DeepSpeed 0.19.8 (docs/BENCHMARKS.md).
// With what allocators keep after ten steps.
constexpr std::uint64_t kRuntimeBytes = 530'000'000;
// TRL's loss multiplies by the head's weight itself: as measured, two copies of it come and go.
constexpr std::uint64_t kHeadCopies = 2;

bool bounds_bucket(const TrainingSetup& setup) {
  return setup.world_size == 1 &&
         (setup.swaps_optimizer() || setup.param_device() == OffloadDevice::kNvme);
}

bool is_tied(const std::vector<TiedName>& ties, const TensorInfo& info) {
  return std::ranges::find(ties, info.name, &TiedName::tensor) != ties.end();
}

// Stage 3 collects gradients here before it reduces them. One that the bucket has no room for stays
// where it is until its turn comes. Each use of a tied weight has a gradient: both are there while
// they are added.
std::uint64_t gradient_bucket_bytes(const TrainingSetup& setup) {
  const DeepSpeedConfig& config = setup.config.deepspeed;
  const std::vector<TiedName> ties = tied_names(setup.inventory);
  std::uint64_t bucket = bounds_bucket(setup)
                             ? std::min(kOneRankBucketElements, config.reduce_bucket_size)
                             : config.reduce_bucket_size;
  std::uint64_t trained = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    trained += setup.trains(info) ? info.elements() : 0;
  }
  bucket = std::min(bucket, trained);
  std::uint64_t beside = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    const std::uint64_t elements = setup.trains(info) ? info.elements() : 0;
    const std::uint64_t waiting = elements > bucket ? elements : 0;
    beside = std::max(beside, waiting + (is_tied(ties, info) ? elements : 0));
  }
  return (bucket + beside) * dtype_bytes(config.gradient_dtype.value_or(config.held_dtype()));
}

std::uint64_t largest_bytes(const TrainingSetup& setup) {
  std::uint64_t largest = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    largest = std::max(largest, packed_bytes(setup.held_dtype(info), info.elements()));
  }
  return largest;
}

// Beyond what is held while it generates, half of which stays then (OverflowAccount): the loss
// gathers the head, and copies it.
std::uint64_t loss_bytes(const TrainingSetup& setup, std::uint64_t held_bytes) {
  if (!setup.generates) {
    return 0;
  }
  const std::uint64_t head = largest_bytes(setup);
  const std::uint64_t gathered = held_bytes / 2 + std::min(head, held_bytes);
  const std::uint64_t at_once = gathered + kHeadCopies * head;
  return at_once - std::min(at_once, held_bytes);
}

std::uint64_t loading_bytes(const TrainingSetup& setup, const std::vector<MemoryRow>& table) {
  const std::uint64_t kept = add_saturating(bytes_of(table, Component::kParameters, Storage::kRam),
                                            bytes_in(table, Storage::kPinned));
  return add_saturating(setup.inventory.bytes() + largest_bytes(setup), kept);
}

}  // namespace

ProcessMemory expect_process_memory(const TrainingSetup& setup, const std::vector<MemoryRow>& table,
                                    const LeasedMemory& leased, bool on_cpu) {
  ProcessMemory memory;
  memory.planned_bytes =
      add_saturating(bytes_in(table, Storage::kRam), bytes_in(table, Storage::kPinned));
  memory.behind_bytes = leased.behind_bytes;
  if (setup.has_config) {
    memory.runtime_bytes = kRuntimeBytes;
    memory.loading_bytes = loading_bytes(setup, table);
  }
  if (on_cpu && setup.has_config) {
    // A single rank gathers partitions where they lie.
    const std::uint64_t gathered =
        setup.world_size == 1 ? bytes_of(table, Component::kBuffers, Storage::kDevice) : 0;
    const std::uint64_t transient = (setup.stage == 3 ? gradient_bucket_bytes(setup) : 0) +
                                    loss_bytes(setup, leased.held_bytes);
    memory.device_bytes = add_saturating(bytes_in(table, Storage::kDevice) - gathered, transient);
  }
  return memory;
}

}  // namespace penstock
