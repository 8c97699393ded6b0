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

// Stage 3 collects gradients here before it reduces them.
std::uint64_t gradient_bucket_bytes(const TrainingSetup& setup) {
  std::uint64_t elements = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    elements += setup.trains(info) ? info.elements() : 0;
  }
  const DType dtype =
      setup.config.deepspeed.gradient_dtype.value_or(setup.config.deepspeed.held_dtype());
  return std::min(elements, setup.config.deepspeed.reduce_bucket_size) * dtype_bytes(dtype);
}

std::uint64_t largest_bytes(const TrainingSetup& setup) {
  std::uint64_t largest = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    largest = std::max(largest, info.elements() * dtype_bytes(setup.held_dtype(info)));
  }
  return largest;
}

std::uint64_t loading_bytes(const TrainingSetup& setup, const std::vector<MemoryRow>& table) {
  return setup.inventory.bytes() + largest_bytes(setup) +
         bytes_of(table, Component::kParameters, Storage::kRam) + bytes_in(table, Storage::kPinned);
}

}  // namespace

ProcessMemory expect_process_memory(const TrainingSetup& setup, const std::vector<MemoryRow>& table,
                                    bool on_cpu) {
  ProcessMemory memory;
  memory.planned_bytes = bytes_in(table, Storage::kRam) + bytes_in(table, Storage::kPinned);
  if (setup.has_config) {
    memory.runtime_bytes = kRuntimeBytes;
    memory.loading_bytes = loading_bytes(setup, table);
  }
  if (on_cpu && setup.has_config) {
    // A single rank gathers partitions where they lie.
    const std::uint64_t gathered =
        setup.world_size == 1 ? bytes_of(table, Component::kBuffers, Storage::kDevice) : 0;
    memory.device_bytes = bytes_in(table, Storage::kDevice) - gathered +
                          (setup.stage == 3 ? gradient_bucket_bytes(setup) : 0) +
                          (setup.generates ? kHeadCopies * largest_bytes(setup) : 0);
  }
  return memory;
}

}  // namespace penstock
