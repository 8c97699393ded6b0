#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "alloc/result.h"
#include "swap/transfer/content_proof.h"
#include "swap/transfer/stored_tensor.h"
#include "swap/transfer/stream_writer.h"

namespace penstock {

/// Writes whole contents of tensors one after the other, each in parts, with its identity behind
/// it. The counterpart of StoredReader. Used by one thread.
class StoredWriter {
 public:
  /// Checksums are of `level`. Errors: no memory.
  static Result<std::unique_ptr<StoredWriter>> make(IoQueue& queue, IntegrityLevel level);

  /// What follows belongs to `stored`, reserved in `file`, which lives until drain().
  void begin(std::shared_ptr<StoredTensor> stored, const File& file);
  /// The next bytes of it; copied. Errors: of an earlier write; then for ever.
  Result<void> append(std::span<const std::byte> bytes);
  /// All its bytes were given: the identity follows. It is whole with the next drain(). Errors: as
  /// append()'s.
  Result<std::shared_ptr<StoredTensor>> end();
  /// Waits until what was given is written. Errors: as append()'s.
  Result<void> drain() { return writer_->drain(); }

  /// Padding and identities included.
  std::uint64_t written_bytes() const noexcept { return writer_->written_bytes(); }

 private:
  StoredWriter(std::unique_ptr<StreamWriter> writer, IntegrityLevel level)
      : level_(level), writer_(std::move(writer)) {}
  void hash_filled();

  IntegrityLevel level_;
  const File* file_ = nullptr;
  std::shared_ptr<StoredTensor> stored_;
  std::uint64_t offset_ = 0;  // within its extent
  std::optional<ContentProof> proof_;
  std::span<const std::byte> filled_;  // of the writer's chunk, not hashed yet
  std::unique_ptr<StreamWriter> writer_;
};

}  // namespace penstock
