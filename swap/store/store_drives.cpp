#include "swap/store/store_drives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <tuple>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {
namespace {

// An allocator of `bytes` in which `taken` (disjoint, ascending) is in use and the rest is free.
// While it is extended range by range nothing else is free, so each is given what was just added.
ExtentAllocator restore_space(std::uint64_t bytes, std::span<const Extent> taken) {
  ExtentAllocator space(0, kBlockBytes);
  std::vector<Extent> gaps;
  const auto take = [&space](std::uint64_t end) {
    const std::uint64_t length = end - space.capacity_bytes();
    space.extend(length);
    const std::optional<Extent> extent = space.allocate(length);
    PENSTOCK_CHECK(extent && extent->end() == end, "{} bytes up to {}", length, end);
    return *extent;
  };
  for (const Extent& extent : taken) {
    if (extent.offset > space.capacity_bytes()) {
      gaps.push_back(take(extent.offset));
    }
    take(extent.end());
  }
  if (bytes > space.capacity_bytes()) {
    space.extend(align_down(bytes - space.capacity_bytes(), kBlockBytes));
  }
  for (const Extent& gap : gaps) {
    space.release(gap);
  }
  return space;
}

Error over_limit(const std::string& path, std::uint64_t bytes, std::uint64_t taken,
                 std::uint64_t limit) {
  return system_error(
      ENOSPC,
      fmt::format("cannot reserve {} in {}: {} of the {} that penstock.paths allows "
                  "are taken",
                  format_bytes(bytes), path, format_bytes(taken), format_bytes(limit)),
      path);
}

}  // namespace

void StoreDrives::add(File file, const PathConfig& config, Role role,
                      std::span<const Extent> taken) {
  Drive& drive = drives_.emplace_back();
  drive.path = file.path();
  drive.max_bytes = config.max_bytes;
  drive.weight = config.weight.value_or(1.0);
  drive.role = role;
  // Where the size is unknown, what lies there is kept and space is added behind it.
  const Result<std::uint64_t> size = file.size_bytes();
  drive.space = restore_space(size.has_value() ? *size : 0, taken);
  drive.file_bytes = drive.space.capacity_bytes();
  drive.named = file.has_name();
  drive.file = std::move(file);
}

void StoreDrives::add_missing(std::string path, const PathConfig& config, Error why) {
  Drive& drive = drives_.emplace_back();
  drive.path = std::move(path);
  drive.max_bytes = config.max_bytes;
  drive.weight = config.weight.value_or(1.0);
  drive.missing = std::move(why);
}

Result<StoreDrives::Space> StoreDrives::reserve(std::uint64_t bytes,
                                                std::span<const std::uint32_t> avoid) {
  const std::lock_guard lock(mutex_);
  std::optional<Error> last;
  for (const std::uint32_t index : order()) {
    if (std::ranges::find(avoid, index) != avoid.end()) {
      continue;
    }
    Result<Extent> extent = reserve_on(drives_[index], bytes);
    if (extent.has_value()) {
      return Space{index, *extent};
    }
    last = std::move(extent).error();
  }
  if (last) {
    return std::move(*last);
  }
  for (const Drive& drive : drives_) {
    if (drive.missing) {
      return *drive.missing;
    }
  }
  return system_error(ENOSPC, "no drive of the store takes anything new");
}

void StoreDrives::release(std::uint32_t drive, Extent extent) {
  const std::lock_guard lock(mutex_);
  if (!drives_[drive].missing) {
    drives_[drive].space.release(extent);
  }
}

std::shared_ptr<StoredTensor> StoreDrives::hold(const StoredTensor& stored) {
  const auto give_back = [drives = shared_from_this()](StoredTensor* held) {
    drives->release(held->drive, held->extent);
    delete held;
  };
  std::unique_ptr<StoredTensor> held;
  try {
    held = std::make_unique<StoredTensor>(stored);
  } catch (const std::bad_alloc&) {
    release(stored.drive, stored.extent);
    throw;
  }
  return {held.release(), give_back};  // gives it back itself where there is no memory
}

void StoreDrives::note_failure(std::uint32_t drive) {
  const std::lock_guard lock(mutex_);
  drives_[drive].failed = true;
}

Result<void> StoreDrives::check_present(std::uint32_t drive, Extent extent) const {
  if (drives_[drive].missing) {
    return *drives_[drive].missing;
  }
  // Where the file system cannot report the size (some FUSE ones), reading will show it.
  const Result<std::uint64_t> size = drives_[drive].file->size_bytes();
  if (size.has_value() && *size < extent.end()) {
    return fault(Fault::kCorrupt,
                 fmt::format("{} is cut short: it has {} bytes, and what lies there ends at {}",
                             drives_[drive].path, *size, extent.end()),
                 drives_[drive].path);
  }
  return {};
}

Result<void> StoreDrives::sync(std::uint32_t drive) const {
  PENSTOCK_TRY(file(drive).sync());
  const std::lock_guard lock(mutex_);
  return check_whole(drives_[drive]);
}

void StoreDrives::lengthen(std::uint32_t drive) {
  const std::lock_guard lock(mutex_);
  if (cut_end(drives_[drive])) {
    drives_[drive].cut_to.reset();
    (void)file(drive).reserve(0, drives_[drive].file_bytes);
  }
}

Result<void> StoreDrives::check_whole() const {
  const std::lock_guard lock(mutex_);
  for (const Drive& drive : drives_) {
    PENSTOCK_TRY(drive.space.used_bytes() > 0 ? check_whole(drive) : Result<void>());
  }
  return {};
}

Result<void> StoreDrives::check_whole(const Drive& drive) {
  if (drive.named && !drive.file->has_name()) {
    return system_error(ENOENT,
                        fmt::format("{} was removed while this process uses it; what it holds can "
                                    "be read until the process ends",
                                    drive.path),
                        drive.path);
  }
  if (const std::optional<std::uint64_t> end = cut_end(drive)) {
    return fault(Fault::kCorrupt,
                 fmt::format("{} was cut to {} bytes while this process uses it; what lay behind "
                             "these is lost, and reading it says so",
                             drive.path, *end),
                 drive.path);
  }
  return {};
}

std::optional<std::uint64_t> StoreDrives::cut_end(const Drive& drive) {
  const Result<std::uint64_t> size = drive.file ? drive.file->size_bytes() : drive.file_bytes;
  const bool is_cut = size.has_value() && *size < drive.file_bytes;
  return drive.cut_to || !is_cut ? drive.cut_to : std::optional(*size);
}

const File& StoreDrives::file(std::uint32_t drive) const {
  PENSTOCK_CHECK(drives_[drive].file.has_value(), "drive {} of {} is missing", drive,
                 drives_.size());
  return *drives_[drive].file;
}

std::uint64_t StoreDrives::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(
      drives_.begin(), drives_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const Drive& drive) { return sum + drive.space.used_bytes(); });
}

std::vector<DriveState> StoreDrives::states() const {
  const std::lock_guard lock(mutex_);
  std::vector<DriveState> states;
  for (const Drive& drive : drives_) {
    states.push_back({drive.path, drive.weight, drive.max_bytes, drive.space.capacity_bytes(),
                      drive.space.used_bytes(), drive.missing});
  }
  return states;
}

Result<void> StoreDrives::trim() {
  const std::lock_guard lock(mutex_);
  for (Drive& drive : drives_) {
    const std::uint64_t tail = drive.space.free_tail_bytes();
    if (drive.file && drive.role != Role::kReadOnly && tail > 0) {
      drive.file_bytes = drive.space.capacity_bytes() - tail;
      PENSTOCK_TRY(drive.file->truncate(drive.file_bytes));
    }
  }
  return {};
}

Result<void> StoreDrives::unlock() {
  for (const Drive& drive : drives_) {
    if (drive.file) {
      PENSTOCK_TRY(drive.file->unlock());
    }
  }
  return {};
}

/// Those that take something new; sound ones first, then the emptiest, in shares of its weight.
std::vector<std::uint32_t> StoreDrives::order() const {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < drives_.size(); ++i) {
    if (drives_[i].file && drives_[i].role == Role::kGrows) {
      indices.push_back(i);
    }
  }
  const auto rank = [this](std::uint32_t index) {
    const Drive& drive = drives_[index];
    const auto used = static_cast<double>(drive.space.used_bytes());
    return std::tuple(drive.failed, used / std::max(drive.weight, 1e-9));
  };
  std::ranges::stable_sort(indices, {}, rank);
  return indices;
}

std::string StoreDrives::describe_free_space(const std::string& path) const {
  const std::optional<std::uint64_t> bytes = system_.free_bytes(path);
  return bytes ? fmt::format("{} free there", format_bytes(*bytes)) : "free space unknown";
}

Result<Extent> StoreDrives::reserve_on(Drive& drive, std::uint64_t bytes) {
  const std::uint64_t used = drive.space.used_bytes();
  if (drive.max_bytes && used + bytes > *drive.max_bytes) {
    return over_limit(drive.path, bytes, used, *drive.max_bytes);
  }
  if (const std::optional<Extent> extent = drive.space.allocate(bytes)) {
    drive.cut_to = cut_end(drive);
    return *extent;
  }
  return grow(drive, bytes);
}

Result<Extent> StoreDrives::grow(Drive& drive, std::uint64_t bytes) {
  const std::uint64_t capacity = drive.space.capacity_bytes();
  const std::uint64_t needed = bytes - drive.space.free_tail_bytes();
  const std::uint64_t limit = drive.max_bytes.value_or(std::numeric_limits<std::uint64_t>::max());
  if (capacity + needed > limit) {
    return over_limit(drive.path, bytes, capacity, limit);
  }
  PENSTOCK_TRY(check_whole(drive));  // a cut would not show once the file has grown
  const std::uint64_t room = align_down(limit - capacity, kBlockBytes);
  // A request that the drive cannot hold takes all of it for a moment, also from other programs. A
  // block in its place says what else may be wrong there: a drive that is read-only, say.
  const std::optional<std::uint64_t> free = system_.free_bytes(drive.path);
  const bool fits = !free || needed <= *free;
  const std::uint64_t growth_max =
      align_down(std::min(kGrowthBytes, free.value_or(8 * kGrowthBytes) / 8), kBlockBytes);
  std::uint64_t growth = std::min(std::max(needed, growth_max), room);
  Result<void> reserved = drive.file->reserve(capacity, fits ? growth : kBlockBytes);
  if (!fits && reserved.has_value()) {
    reserved = system_error(ENOSPC, "", drive.path);
  }
  if (reserved.has_error() && growth > needed) {
    growth = needed;
    reserved = drive.file->reserve(capacity, growth);
  }
  if (reserved.has_value()) {
    drive.space.extend(growth);
    drive.file_bytes = capacity + growth;
    return *drive.space.allocate(bytes);
  }
  Error error = std::move(reserved).error();
  error.message = fmt::format("cannot reserve {} in {} ({}): {}", format_bytes(bytes), drive.path,
                              describe_free_space(drive.path), error.code.message());
  return error;
}

}  // namespace penstock
