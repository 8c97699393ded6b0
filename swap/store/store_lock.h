#pragma once

#include <optional>
#include <string>

#include "alloc/result.h"
#include "io/file_system.h"

namespace penstock {

/// The right to use a durable store: one process (a rank of a job is one) at a time. Ends with this
/// object, and with the process however that ends.
class StoreLock {
 public:
  enum class Use : std::uint8_t { kRead, kWrite };

  /// Errors: EBUSY, naming who has the store; errno and path. Where nobody could write anyway (a
  /// read-only mount without a lock file), reading needs no lock.
  static Result<StoreLock> take(FileSystem& system, const std::string& directory, Use use);

  /// Who uses the store now: "process 4711 (penstock) on host, rank 0"; nothing if nobody does, or
  /// if it cannot be told.
  static std::optional<std::string> holder(FileSystem& system, const std::string& directory);

 private:
  explicit StoreLock(std::optional<File> file) : file_(std::move(file)) {}
  std::optional<File> file_;
};

}  // namespace penstock
