#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "swap/store/transfer_ring.h"

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

/// Reads stretches one after the other, several requests ahead of whoever uses the bytes, from any
/// offset. Used by one thread.
class StreamReader {
 public:
  /// Stretches and their files live as long as the reader. Errors: no memory.
  static Result<std::unique_ptr<StreamReader>> make(IoQueue& queue, std::vector<Stretch> stretches,
                                                    const TransferRing::Shape& shape = {});

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
  struct Piece {
    std::size_t stretch = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t skipped = 0;  // of the chunk, in front of them: up to the offset's block
    std::size_t slot = 0;
    bool last = false;
  };

  StreamReader(std::unique_ptr<TransferRing> ring, std::vector<Stretch> stretches);
  void read_ahead();
  void begin_piece();

  std::vector<Stretch> stretches_;
  std::size_t next_stretch_ = 0;
  std::uint64_t next_offset_ = 0;  // within it
  std::size_t next_slot_ = 0;
  std::deque<Piece> pieces_;  // under way, or handed out last (the first)
  bool handed_out_ = false;
  std::unique_ptr<TransferRing> ring_;
};

}  // namespace penstock
