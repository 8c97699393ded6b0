#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cerrno>
#include <map>
#include <memory>
#include <vector>

#include "alloc/bytes.h"
#include "swap/store/swap_store.h"
#include "tests/io/temp_directory.h"
#include "tests/property/step.h"

namespace penstock {
namespace {

enum Kind : std::uint32_t { kReserve, kRelease };

constexpr std::uint64_t kLargest = 300 * kKiB;

struct Drives {
  std::vector<PathConfig> paths;
  std::vector<std::uint64_t> used_bytes;
  std::vector<std::map<std::uint64_t, std::uint64_t>> extents;  // per drive: offset -> end
};

/// Files in a RAM file system where there is one: thousands of them are made
/// and dropped.
Drives any_drives(const TempDirectory& directory) {
  Drives drives;
  const auto count = *rc::gen::inRange<std::size_t>(1, 5);
  for (std::size_t i = 0; i < count; ++i) {
    PathConfig path;
    path.path = directory / std::to_string(i);
    path.weight = *rc::gen::inRange(1, 9);
    path.max_bytes = *rc::gen::inRange<std::uint64_t>(0, 4 * kMiB);
    drives.paths.push_back(path);
  }
  drives.used_bytes.resize(count);
  drives.extents.resize(count);
  return drives;
}

double fill(const Drives& drives, std::size_t drive) {
  return static_cast<double>(drives.used_bytes[drive]) / *drives.paths[drive].weight;
}

void add(Drives& drives, const StoredTensor& stored) {
  const auto [at, added] =
      drives.extents[stored.drive].emplace(stored.extent.offset, stored.extent.end());
  const auto& row = drives.extents[stored.drive];
  RC_ASSERT(added);
  RC_ASSERT((at == row.begin() || std::prev(at)->second <= stored.extent.offset));
  RC_ASSERT((std::next(at) == row.end() || stored.extent.end() <= std::next(at)->first));
  RC_ASSERT(stored.extent.end() <= *drives.paths[stored.drive].max_bytes);
  RC_ASSERT(stored.extent.bytes == stored.body_bytes() + stored.trailer_bytes());
  drives.used_bytes[stored.drive] += stored.extent.bytes;
}

void reserve(SwapStore& store, Drives& drives, std::vector<StoredTensor>& held,
             std::uint64_t bytes) {
  const Result<StoredTensor> stored = store.reserve(held.size() + 1, 1, bytes);
  if (!stored) {
    RC_ASSERT(stored.error().system_errno() == ENOSPC);
    // No drive may have as much in one piece at its end.
    for (std::size_t drive = 0; drive < drives.paths.size(); ++drive) {
      const auto& row = drives.extents[drive];
      const std::uint64_t end = row.empty() ? 0 : row.rbegin()->second;
      const std::uint64_t most = align_down(*drives.paths[drive].max_bytes, kBlockBytes);
      RC_ASSERT(most - std::min(most, end) < bytes + kBlockBytes);
    }
    return;
  }
  // The emptiest drive by its weight had to be asked first; another was taken
  // only if that had no room.
  for (std::size_t drive = 0; drive < drives.paths.size(); ++drive) {
    const bool emptier = fill(drives, drive) < fill(drives, stored->drive);
    const auto& row = drives.extents[drive];
    const std::uint64_t end = row.empty() ? 0 : row.rbegin()->second;
    const std::uint64_t most = align_down(*drives.paths[drive].max_bytes, kBlockBytes);
    RC_ASSERT((!emptier || most - std::min(most, end) < stored->extent.bytes));
  }
  add(drives, *stored);
  held.push_back(*stored);
}

RC_GTEST_PROP(SwapStoreProperty, FillsDrivesByWeightWithinTheirQuotasWithoutOverlap, ()) {
  const TempDirectory directory;
  Drives drives = any_drives(directory);
  const std::unique_ptr<SwapStore> store = SwapStore::open_scratch(drives.paths).value();
  std::vector<StoredTensor> held;
  for (const Step& step : *steps({kReserve, kReserve, kRelease}, any_magnitude(kLargest))) {
    if (step.kind == kReserve) {
      reserve(*store, drives, held, step.amount + 1);
    } else if (!held.empty()) {
      std::swap(held[step.pick % held.size()], held.back());
      const StoredTensor last = held.back();
      held.pop_back();
      store->release(last);
      drives.extents[last.drive].erase(last.extent.offset);
      drives.used_bytes[last.drive] -= last.extent.bytes;
    }
    std::uint64_t sum = 0;
    for (const std::uint64_t used : drives.used_bytes) {
      sum += used;
    }
    RC_ASSERT(store->used_bytes() == sum);
  }
}

}  // namespace
}  // namespace penstock
