#include "swap/store/swap_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <numeric>
#include <random>

#include "alloc/bytes.h"

namespace penstock {
namespace {

/// Files grow by at least this much, so that the first step does not ask the file system for every
/// tensor; where that much is not free, by what is needed.
constexpr std::uint64_t kGrowthBytes = 64 * kMiB;

}  // namespace

SwapStore::Drive::Drive(File opened, const PathConfig& config)
    : file(std::move(opened)),
      max_bytes(config.max_bytes.value_or(std::numeric_limits<std::uint64_t>::max())),
      weight(config.weight.value_or(1.0)),
      space(0, kBlockBytes) {}

SwapStore::SwapStore(FileSystem& system) : system_(system) {
  std::random_device random;
  number_ = (std::uint64_t{random()} << 32) | random();
}

Result<std::unique_ptr<SwapStore>> SwapStore::open_scratch(const std::vector<PathConfig>& paths,
                                                           FileSystem& system) {
  if (paths.empty()) {
    return fault(Fault::kConfiguration,
                 "nothing says where to swap to: give nvme_path in offload_param or "
                 "offload_optimizer, or penstock.paths");
  }
  std::unique_ptr<SwapStore> store(new SwapStore(system));
  for (const PathConfig& config : paths) {
    Result<File> file = system.create_scratch(config.path, DirectMode::kAuto);
    if (file.has_error()) {
      return std::move(file).error();
    }
    store->drives_.push_back(std::make_unique<Drive>(std::move(file).value(), config));
  }
  return store;
}

Result<StoredTensor> SwapStore::reserve(std::uint64_t tensor, std::uint64_t generation,
                                        std::uint64_t bytes) {
  StoredTensor stored;
  stored.identity.store = number_;
  stored.identity.tensor = tensor;
  stored.identity.generation = generation;
  stored.identity.bytes = bytes;
  const std::uint64_t extent_bytes = stored.body_bytes() + stored.trailer_bytes();
  std::lock_guard lock(mutex_);
  Error last;
  for (const std::size_t index : drives_by_fill()) {
    Result<Extent> extent = reserve_on(*drives_[index], extent_bytes);
    if (extent.has_value()) {
      stored.drive = static_cast<std::uint32_t>(index);
      stored.extent = extent.value();
      return stored;
    }
    last = std::move(extent).error();
  }
  return last;
}

void SwapStore::release(const StoredTensor& stored) {
  std::lock_guard lock(mutex_);
  drives_[stored.drive]->space.release(stored.extent);
}

std::uint64_t SwapStore::used_bytes() const {
  std::lock_guard lock(mutex_);
  return std::accumulate(drives_.begin(), drives_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const std::unique_ptr<Drive>& drive) {
                           return sum + drive->space.used_bytes();
                         });
}

/// The emptiest drive first, measured in shares of its weight.
std::vector<std::size_t> SwapStore::drives_by_fill() const {
  std::vector<std::size_t> order(drives_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto fill = [this](std::size_t index) {
    const Drive& drive = *drives_[index];
    return static_cast<double>(drive.space.used_bytes()) / std::max(drive.weight, 1e-9);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return fill(a) < fill(b); });
  return order;
}

std::string SwapStore::describe_free_space(const std::string& path) const {
  const std::optional<std::uint64_t> bytes = system_.free_bytes(path);
  return bytes ? fmt::format("{} free there", format_bytes(*bytes)) : "free space unknown";
}

Result<Extent> SwapStore::reserve_on(Drive& drive, std::uint64_t bytes) {
  if (const std::optional<Extent> extent = drive.space.allocate(bytes)) {
    return *extent;
  }
  const std::uint64_t capacity = drive.space.capacity_bytes();
  const std::uint64_t needed = bytes - drive.space.free_tail_bytes();
  if (capacity + needed > drive.max_bytes) {
    return system_error(
        ENOSPC,
        fmt::format("cannot reserve {} in {}: {} of the {} that penstock.paths allows are laid out",
                    format_bytes(bytes), drive.file.path(), format_bytes(capacity),
                    format_bytes(drive.max_bytes)),
        drive.file.path());
  }
  const std::uint64_t room = align_down(drive.max_bytes - capacity, kBlockBytes);
  const std::uint64_t wanted = std::min(std::max(needed, kGrowthBytes), room);
  Error error;
  for (const std::uint64_t growth : {wanted, needed}) {
    Result<void> reserved = drive.file.reserve(capacity, growth);
    if (reserved.has_value()) {
      drive.space.extend(growth);
      return *drive.space.allocate(bytes);
    }
    error = std::move(reserved).error();
  }
  error.message =
      fmt::format("cannot reserve {} in {} ({}): {}", format_bytes(bytes), drive.file.path(),
                  describe_free_space(drive.file.path()), error.code.message());
  return error;
}

}  // namespace penstock
