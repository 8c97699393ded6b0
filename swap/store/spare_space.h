#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "alloc/mutex.h"
#include "alloc/result.h"
#include "io/directory.h"

namespace penstock {

/// Space on a drive, reserved before it is needed: an empty file, truncated when a journal has to
/// grow on a full drive. Without it the journal on a full drive could not even record which older
/// contents are given up, nor be begun by the next process. Thread-safe.
class SpareSpace {
 public:
  /// Named `spare` in `directory`, which outlives it. Errors: errno and path.
  static Result<std::unique_ptr<SpareSpace>> open(Directory& directory);

  /// At least `bytes` are kept from here on. Errors: ENOSPC… with the path; what was kept stays.
  Result<void> keep(std::uint64_t bytes);
  /// What is kept beyond `bytes`, and the step that space is reserved in, goes back to the drive.
  /// Errors: errno with the path; all of it is kept.
  Result<void> shrink(std::uint64_t bytes);
  /// Gives all of it to the drive. Errors: errno with the path.
  Result<void> release();
  bool is_kept() const;
  /// For the end of the store's use: keeps `bytes`, no more; where they are not there, the smaller
  /// `least`; where these are not there either, no file.
  void leave(std::uint64_t bytes, std::uint64_t least);
  /// There is no room for it any more.
  void remove();

 private:
  SpareSpace(Directory& directory, File file) : directory_(directory), file_(std::move(file)) {}

  Directory& directory_;
  File file_;
  mutable Mutex mutex_;
  std::uint64_t kept_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock
