#pragma once

#include <optional>
#include <string>

#include "alloc/result.h"
#include "io/directory.h"

namespace penstock {

/// The right to use a durable store: one process (a rank of a job is one) that writes, or any
/// number that read. Ends with this object, and with the process however that ends.
class StoreLock {
 public:
  enum class Use : std::uint8_t {
    kRead,   ///< writes nothing; a store without a lock file has never been written to: no lock
    kWrite,  ///< makes the lock file and signs it
  };

  /// Errors: EBUSY, naming the process that writes, or saying that others read; errno and path.
  static Result<StoreLock> take(Directory& directory, Use use);

  /// The process that writes to the store now: "process 4711 (penstock) on host, rank 0"; nothing
  /// if there is none, or if it cannot be seen.
  static std::optional<std::string> holder(Directory& directory);

 private:
  explicit StoreLock(std::optional<File> file) : file_(std::move(file)) {}
  static Result<StoreLock> take_to_read(Directory& directory);
  std::optional<File> file_;
};

}  // namespace penstock
