#include "bench/tune/aio_axes.h"

#include <algorithm>
#include <array>
#include <limits>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

constexpr std::array<std::uint64_t, 6> kBlocks{256 * kKiB, 512 * kKiB, kMiB,
                                               2 * kMiB,   4 * kMiB,   8 * kMiB};
constexpr std::array<std::uint64_t, 5> kDepths{4, 8, 16, 32, 64};
constexpr std::array<std::uint64_t, 4> kThreads{1, 2, 4, 8};
// Little's law: a drive of 14 GB/s with 4 ms to each request wants 56 MiB under way.
constexpr std::uint64_t kUnderWayBytesMax = 64 * kMiB;

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(value, 1, std::numeric_limits<std::uint16_t>::max()));
}

std::size_t swappable_tensors(TrainingSetup setup, std::uint64_t block_bytes) {
  setup.config.deepspeed.aio.block_size = block_bytes;
  const std::vector<PlanTensor> tensors = rank_tensors(setup);
  return static_cast<std::size_t>(std::ranges::count_if(tensors, &PlanTensor::swappable));
}

std::vector<std::uint64_t> blocks_that_swap_the_same(const TrainingSetup& setup) {
  const std::size_t present = swappable_tensors(setup, setup.config.deepspeed.aio.block_size);
  std::vector<std::uint64_t> blocks;
  std::ranges::copy_if(kBlocks, std::back_inserter(blocks), [&](std::uint64_t block) {
    return swappable_tensors(setup, block) == present;
  });
  return blocks;
}

}  // namespace

AioSettings aio_settings(const AioConfig& config) {
  return {std::clamp<std::uint64_t>(config.block_size, kBlockBytes, kGiB),
          narrow(config.queue_depth), narrow(config.intra_op_parallelism), config.overlap_events};
}

std::vector<SettingAxis> aio_axes(const TrainingSetup& setup, std::uint32_t cpus) {
  std::vector<std::uint64_t> threads;
  std::ranges::copy_if(kThreads, std::back_inserter(threads),
                       [cpus](std::uint64_t count) { return count <= std::max(cpus, 1U); });
  std::vector<SettingAxis> axes{{"queue_depth", {kDepths.begin(), kDepths.end()}},
                                {"block_size", blocks_that_swap_the_same(setup)},
                                {"intra_op_parallelism", std::move(threads)}};
  if (!setup.config.deepspeed.aio.overlap_events) {
    axes.push_back({"overlap_events", {0, 1}});
  }
  return axes;
}

SettingPoint to_point(const AioSettings& settings, std::size_t axes) {
  SettingPoint point{settings.depth, settings.block_bytes, settings.threads,
                     settings.overlap_events ? 1U : 0U};
  point.resize(axes);
  return point;
}

AioSettings to_settings(const SettingPoint& point) {
  return {point[1], narrow(point[0]), narrow(point[2]), point.size() < 4 || point[3] != 0};
}

bool is_worth_trying(const AioSettings& settings) {
  return settings.block_bytes * settings.depth <= kUnderWayBytesMax / settings.threads;
}

}  // namespace penstock::bench
