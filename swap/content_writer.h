#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "alloc/result.h"
#include "swap/lease.h"
#include "swap/store/swap_store.h"
#include "swap/tensor.h"
#include "swap/transfer/stored_writer.h"

namespace penstock {

class ContentStreams;

/// New contents of tensors, one after the other, in parts: to their drives through 16 MiB of
/// memory, whatever their size; what stays in RAM by the plan is written there. Until publish() the
/// tensors have the contents that they had; without it they keep them. While it is there a durable
/// store that it writes to stays this process's (EBUSY for others), also closed. Used by one
/// thread.
class ContentWriter {
 public:
  ContentWriter(ContentWriter&&) noexcept = default;
  ContentWriter& operator=(ContentWriter&& other) noexcept;
  ~ContentWriter();

  /// What follows is the next content of `tensor`. Errors: it is not known; ENOSPC with path and
  /// tensor; the one before has not ended.
  Result<void> begin(TensorId tensor);
  /// Its next bytes; copied. Errors: more than the tensor has; of an earlier write.
  Result<void> append(std::span<const std::byte> bytes);
  /// All its bytes were given. Errors: there are fewer than the tensor has; of an earlier write.
  Result<void> end();
  /// Blocks until what was given is written. Errors: of a write; nothing can be published then.
  Result<void> drain() { return writer_->drain(); }
  /// As drain(); then all of it becomes the tensors' contents, one after the other, but where a
  /// content that was put since begin() is newer: that stays. Errors: of a write that begin() to
  /// drain() made, or a content has not ended, and no tensor has changed; of a tensor that cannot
  /// take its content (it was forgotten; a durable store refuses it), and those before it in the
  /// order of begin() have changed. Once.
  Result<void> publish();

 private:
  friend class ContentStreams;
  struct Given {
    TensorId tensor{};
    std::uint64_t since = 0;               // the generation at begin()
    Lease lease;                           // empty: on a drive
    std::shared_ptr<StoredTensor> stored;  // null: in the lease
    std::shared_ptr<const SwapStore> store;
    std::shared_ptr<void> use;  // of the store: its namespace may be closed meanwhile
  };
  ContentWriter(std::shared_ptr<ContentStreams> streams, std::unique_ptr<StoredWriter> writer);
  /// Errors: not_failed()'s; a content has begun and not ended.
  Result<void> between_contents() const;
  Result<void> not_failed() const;

  std::shared_ptr<ContentStreams> streams_;
  std::vector<Given> given_;              // the last one is being given, until end()
  std::uint64_t left_bytes_ = 0;          // 0 where none is
  bool is_open_ = false;                  // between begin() and end()
  std::optional<Error> failed_;           // what append() has said: nothing more is taken
  std::unique_ptr<StoredWriter> writer_;  // last: it waits for what is under way
};

}  // namespace penstock
