#include "swap/store/spare_space.h"

#include <utility>

#include "alloc/bytes.h"

namespace penstock {
namespace {

constexpr const char* kSpareName = "spare";
constexpr std::uint64_t kReserveStepBytes = kMiB;

}  // namespace

Result<std::unique_ptr<SpareSpace>> SpareSpace::open(Directory& directory) {
  Result<File> file = directory.open(kSpareName, File::Access::kCreate, DirectMode::kBuffered);
  PENSTOCK_TRY(file);
  return std::unique_ptr<SpareSpace>(new SpareSpace(directory, std::move(file).value()));
}

Result<void> SpareSpace::keep(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes <= kept_bytes_) {
    return {};
  }
  for (const std::uint64_t wanted : {align_up(bytes, kReserveStepBytes), bytes}) {
    Result<void> reserved = file_.reserve(0, wanted);
    if (reserved.has_value()) {
      kept_bytes_ = wanted;
      return {};
    }
    if (wanted == bytes) {
      return reserved;
    }
  }
  return {};
}

Result<void> SpareSpace::shrink(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  const std::uint64_t wanted = align_up(bytes, kReserveStepBytes);
  if (wanted >= kept_bytes_) {
    return {};
  }
  PENSTOCK_TRY(file_.truncate(wanted));
  kept_bytes_ = wanted;
  return {};
}

Result<void> SpareSpace::release() {
  const MutexLock lock(mutex_);
  kept_bytes_ = 0;
  return file_.truncate(0);
}

bool SpareSpace::is_kept() const {
  const MutexLock lock(mutex_);
  return kept_bytes_ > 0;
}

void SpareSpace::leave(std::uint64_t bytes, std::uint64_t least) {
  for (const std::uint64_t wanted : {bytes, least}) {
    const MutexLock lock(mutex_);
    // What is there already needs no room, and an earlier process may have kept more.
    if (file_.reserve(0, wanted).has_value() && file_.truncate(wanted).has_value()) {
      kept_bytes_ = wanted;
      return;
    }
  }
  remove();
}

void SpareSpace::remove() {
  const MutexLock lock(mutex_);
  kept_bytes_ = 0;
  (void)directory_.remove(kSpareName);
}

}  // namespace penstock
