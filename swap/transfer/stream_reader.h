#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/result.h"
#include "io/file.h"
#include "io/io_queue.h"
#include "swap/plan/chunk_shape.h"

namespace penstock {

/// A range of a file that is read as a whole, in order.
struct Stretch {
  const File* file = nullptr;
  /// The same file opened buffered, for its last bytes where they are less than a block; null where
  /// the stretch is whole blocks.
  const File* buffered = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t file_bytes = 0;  ///< 0 where `buffered` is null
};

/// Reads stretches one after the other, several requests ahead of the caller, from any offset. Used
/// by one thread.
class StreamReader {
 public:
  /// Stretches and their files live as long as the reader. Errors: no memory.
  static Result<std::unique_ptr<StreamReader>> make(IoQueue& queue, std::vector<Stretch> stretches,
                                                    const ChunkShape& shape = kStreamChunks);
  /// Waits for what is under way.
  ~StreamReader();
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;

  struct Part {
    std::size_t stretch = 0;
    std::uint64_t offset = 0;  ///< within the stretch; parts come without gaps
    /// Valid until the next call of next(). Empty where it could not be read.
    std::span<const std::byte> bytes;
    bool last = false;  ///< of the stretch
    std::optional<Error> problem;
  };
  /// The next part; nothing after the last. A stretch of 0 bytes has one part of 0 bytes. A part
  /// that could not be read is an error of its own: what follows comes all the same.
  std::optional<Part> next();

 private:
  class Reading;
  explicit StreamReader(std::shared_ptr<Reading> reading);

  std::shared_ptr<Reading> reading_;
};

}  // namespace penstock
