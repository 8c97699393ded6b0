#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/result.h"
#include "swap/lease.h"
#include "swap/store/swap_store.h"
#include "swap/transfer/stored_reader.h"

namespace penstock {

/// What tensors of an engine hold, one after the other, in parts: from their drives through 16 MiB
/// of memory, whatever their size; what is in memory is read there. The contents are those of the
/// moment in which the reader was made; newer ones may be put meanwhile. Used by one thread.
class ContentReader {
 public:
  ContentReader(ContentReader&&) noexcept = default;
  ContentReader& operator=(ContentReader&& other) noexcept;
  ~ContentReader() = default;

  struct Part {
    std::size_t tensor = 0;  ///< which of those asked for
    /// Its next bytes, valid until the next call of next().
    std::span<const std::byte> bytes;
    bool last = false;  ///< of the tensor
  };
  /// The next part; nothing after the last. Errors: the drive's; Fault::kCorrupt where the bytes
  /// are not those that were written, with the tensor's last part at the latest. After an
  /// error there is nothing more: each call gives that error again.
  Result<std::optional<Part>> next();

 private:
  friend class ContentStreams;
  struct Source {
    Lease lease;  ///< empty: it comes from its drive
    std::shared_ptr<const SwapStore> store;
  };
  ContentReader() = default;
  Part next_of_lease(const Lease& lease);

  std::shared_ptr<void> engine_;  // has the queue
  std::vector<Source> sources_;
  std::size_t tensor_ = 0;  // whose parts are coming
  std::size_t offset_ = 0;  // within its lease
  std::optional<Error> failed_;
  std::unique_ptr<StoredReader> stored_;  // of those without a lease, in order; may be null
};

}  // namespace penstock
