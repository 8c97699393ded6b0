#include "swap/transfer/stream_reader.h"

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "swap/transfer/stream_transfer.h"

namespace penstock {

/// All stretches, a piece of one in each chunk.
class StreamReader::Reading final : public StreamTransfer {
 public:
  Reading(IoQueue& queue, std::vector<Stretch> stretches, std::unique_ptr<ChunkMemory> chunks)
      : StreamTransfer(queue, std::move(chunks)),
        stretches_(std::move(stretches)),
        pieces_(memory().chunks().size()) {}

  static void begin(const std::shared_ptr<Reading>& reading) { reading->pump().move(reading); }
  std::optional<Part> next();
  void end();

 private:
  struct Piece {
    const File* file = nullptr;
    std::uint64_t begin = 0;    // in the file, of what is read
    std::uint64_t skipped = 0;  // of what is read, in front of the piece
    std::uint64_t bytes = 0;
  };

  std::uint64_t part_bytes(std::uint64_t chunk_bytes, std::uint64_t left) noexcept override;
  void fetch(Chunk& chunk) noexcept override;
  void io_ended(Chunk& chunk) noexcept override { chunk.pump->arrived(chunk); }
  void deliver(Chunk& chunk) noexcept override { hand_out(chunk); }
  Piece& piece_in(const Chunk& chunk) {
    return pieces_[static_cast<std::size_t>(&chunk - memory().chunks().data())];
  }

  const std::vector<Stretch> stretches_;
  std::vector<Piece> pieces_;  // by chunk
  Piece beginning_;            // from part_bytes() to the fetch() that follows it
  std::size_t begun_stretch_ = 0;
  std::uint64_t begun_offset_ = 0;  // within it
  // The caller's.
  Chunk* last_ = nullptr;
  std::size_t stretch_ = 0;
  std::uint64_t offset_ = 0;
};

/// Direct I/O moves whole blocks: what is read begins at the block of the first byte and ends with
/// the block of the last, except in the last, partial block of a file, where only buffered I/O can.
std::uint64_t StreamReader::Reading::part_bytes(std::uint64_t chunk_bytes,
                                                std::uint64_t /*left*/) noexcept {
  while (begun_stretch_ < stretches_.size() && stretches_[begun_stretch_].bytes == 0) {
    ++begun_stretch_;
  }
  if (begun_stretch_ == stretches_.size()) {
    return 0;
  }
  const Stretch& stretch = stretches_[begun_stretch_];
  const std::uint64_t from = stretch.offset + begun_offset_;
  const std::uint64_t to = stretch.offset + stretch.bytes;
  const std::uint64_t block = stretch.file->direct().supported ? kBlockBytes : 1;
  const std::uint64_t whole_blocks_end =
      stretch.buffered == nullptr ? align_up(to, block) : align_down(stretch.file_bytes, block);
  beginning_.file = stretch.file;
  beginning_.begin = align_down(from, block);
  std::uint64_t end =
      std::min({align_up(to, block), beginning_.begin + chunk_bytes, whole_blocks_end});
  if (end <= from) {
    beginning_.file = stretch.buffered;
    beginning_.begin = from;
    end = std::min(to, from + chunk_bytes);
  }
  beginning_.skipped = from - beginning_.begin;
  beginning_.bytes = std::min(end, to) - from;
  begun_offset_ += beginning_.bytes;
  if (begun_offset_ == stretch.bytes) {
    ++begun_stretch_;
    begun_offset_ = 0;
  }
  return end - beginning_.begin;
}

void StreamReader::Reading::fetch(Chunk& chunk) noexcept {
  const Piece& piece = piece_in(chunk) = beginning_;
  begin_io(chunk, IoKind::kRead, *piece.file, piece.begin, chunk.bytes);
}

std::optional<StreamReader::Part> StreamReader::Reading::next() {
  if (Chunk* const last = std::exchange(last_, nullptr)) {
    pump().left(*last);
  }
  if (stretch_ == stretches_.size()) {
    return std::nullopt;
  }
  Part part{stretch_, offset_, {}, true, std::nullopt};
  if (stretches_[stretch_].bytes > 0) {
    last_ = &take();
    const Piece& piece = piece_in(*last_);
    offset_ += piece.bytes;
    part.last = offset_ == stretches_[stretch_].bytes;
    part.problem = io_error(*last_);
    if (!part.problem) {
      part.bytes = last_->memory.subspan(piece.skipped, piece.bytes);
    }
  }
  if (part.last) {
    ++stretch_;
    offset_ = 0;
  }
  return part;
}

void StreamReader::Reading::end() {
  if (last_ != nullptr) {
    pump().left(*last_);
  }
  stop();
}

Result<std::unique_ptr<StreamReader>> StreamReader::make(IoQueue& queue,
                                                         std::vector<Stretch> stretches,
                                                         const ChunkShape& shape) {
  Result<std::unique_ptr<ChunkMemory>> chunks = ChunkMemory::make(queue, shape);
  PENSTOCK_TRY(chunks);
  auto reading = std::make_shared<Reading>(queue, std::move(stretches), std::move(chunks).value());
  Reading::begin(reading);
  return std::unique_ptr<StreamReader>(new StreamReader(std::move(reading)));
}

StreamReader::StreamReader(std::shared_ptr<Reading> reading) : reading_(std::move(reading)) {}

StreamReader::~StreamReader() {
  reading_->end();
}

std::optional<StreamReader::Part> StreamReader::next() {
  return reading_->next();
}

}  // namespace penstock
