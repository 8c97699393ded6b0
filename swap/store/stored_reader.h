#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/result.h"
#include "swap/store/checksum.h"
#include "swap/store/durable_store.h"
#include "swap/store/stream_reader.h"

namespace penstock {

/// Reads whole tensors of a durable store one after the other in parts, and proves each when its
/// last part has come. Used by one thread.
class StoredReader {
 public:
  /// All of `entries` lie on drives that are there. The store lives as long as the reader. Errors:
  /// no memory.
  static Result<std::unique_ptr<StoredReader>> make(const DurableStore& store, IoQueue& queue,
                                                    std::vector<CatalogEntry> entries);

  struct Part {
    std::size_t entry = 0;
    /// The tensor's next bytes, valid until the next call; whole 4 KiB but in the last part.
    std::span<const std::byte> bytes;
    bool last = false;
    /// With the last part: what is wrong with the tensor, with name and path. Fault::kCorrupt, or
    /// the drive's errno.
    std::optional<Error> problem;
  };
  /// The next part; nothing after the last. A tensor of 0 bytes has parts too.
  std::optional<Part> next();

 private:
  StoredReader(const DurableStore& store, std::vector<CatalogEntry> entries,
               std::unique_ptr<StreamReader> reader);
  void begin_tensor(std::size_t entry);
  std::optional<Error> prove(std::span<const std::byte> identity);
  Error corrupt(const std::string& how) const;

  const DurableStore& store_;
  std::vector<CatalogEntry> entries_;
  std::unique_ptr<StreamReader> reader_;
  // Of the tensor whose parts are coming.
  std::size_t entry_ = 0;
  std::optional<ChecksumStream> checksum_;
  std::optional<Error> problem_;  // the first
};

}  // namespace penstock
