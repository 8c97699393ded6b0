#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "swap/transfer/content_proof.h"
#include "swap/transfer/stored_tensor.h"
#include "swap/transfer/stream_reader.h"

namespace penstock {

/// A content that lies whole on a drive.
struct StoredContent {
  std::string tensor_name;  ///< for errors
  HeldExtent extent;
  const File* file = nullptr;  ///< of the store's drive that has it; the store outlives its use
};

/// Reads whole contents one after the other in parts, and proves each when its last part has come.
/// Used by one thread.
class StoredReader {
 public:
  /// Errors: no memory.
  static Result<std::unique_ptr<StoredReader>> make(IoQueue& queue,
                                                    std::vector<StoredContent> contents);

  struct Part {
    std::size_t content = 0;  ///< its index
    /// The content's next bytes, valid until the next call; whole 4 KiB but in the last part.
    std::span<const std::byte> bytes;
    bool last = false;
    /// With the last part: what is wrong with the content, with name and path. Fault::kCorrupt, or
    /// the drive's errno.
    std::optional<Error> problem;
  };
  /// The next part; nothing after the last. A content of 0 bytes has parts too.
  std::optional<Part> next();

 private:
  StoredReader(std::vector<StoredContent> contents, std::unique_ptr<StreamReader> reader);
  void begin_content(std::size_t content);
  Error corrupt(const std::string& how) const;

  std::vector<StoredContent> contents_;
  std::unique_ptr<StreamReader> reader_;
  // Of the content whose parts are coming.
  std::size_t content_ = 0;
  std::optional<ContentProof> proof_;
  std::optional<Error> problem_;  // the first
};

}  // namespace penstock
