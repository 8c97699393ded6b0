#include "swap/store/stream_reader.h"

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"

namespace penstock {

Result<std::unique_ptr<StreamReader>> StreamReader::make(IoQueue& queue,
                                                         std::vector<Stretch> stretches,
                                                         const TransferRing::Shape& shape) {
  Result<std::unique_ptr<TransferRing>> ring = TransferRing::make(queue, shape);
  if (ring.has_error()) {
    return std::move(ring).error();
  }
  return std::unique_ptr<StreamReader>(
      new StreamReader(std::move(ring).value(), std::move(stretches)));
}

StreamReader::StreamReader(std::unique_ptr<TransferRing> ring, std::vector<Stretch> stretches)
    : stretches_(std::move(stretches)), ring_(std::move(ring)) {}

std::optional<StreamReader::Part> StreamReader::next() {
  if (std::exchange(handed_out_, false)) {
    pieces_.pop_front();
  }
  read_ahead();
  if (pieces_.empty()) {
    return std::nullopt;
  }
  handed_out_ = true;
  const Piece& piece = pieces_.front();
  Part part;
  part.stretch = piece.stretch;
  part.offset = piece.offset;
  part.last = piece.last;
  Result<void> read = ring_->wait(piece.slot);
  if (read.has_error()) {
    part.problem = std::move(read).error();
  } else {
    part.bytes = ring_->chunk(piece.slot).subspan(piece.skipped, piece.bytes);
  }
  return part;
}

void StreamReader::read_ahead() {
  while (pieces_.size() < ring_->count() && next_stretch_ < stretches_.size()) {
    begin_piece();
  }
}

/// Direct I/O moves whole blocks: what is read begins at the block of the first byte and ends with
/// the block of the last, except in the last, partial block of a file, where only buffered I/O can.
void StreamReader::begin_piece() {
  const Stretch& stretch = stretches_[next_stretch_];
  const std::uint64_t from = stretch.offset + next_offset_;
  const std::uint64_t to = stretch.offset + stretch.bytes;
  const std::uint64_t block = stretch.file->direct().supported ? kBlockBytes : 1;
  const std::uint64_t whole_blocks_end =
      stretch.buffered == nullptr ? align_up(to, block) : align_down(stretch.file_bytes, block);
  const File* file = stretch.file;
  std::uint64_t begin = align_down(from, block);
  std::uint64_t end =
      std::min({align_up(to, block), begin + ring_->chunk_bytes(), whole_blocks_end});
  if (end <= from) {
    file = stretch.buffered;
    begin = from;
    end = to;
  }
  Piece piece;
  piece.stretch = next_stretch_;
  piece.offset = next_offset_;
  piece.bytes = std::min(end, to) - from;
  piece.skipped = from - begin;
  piece.slot = next_slot_;
  piece.last = from + piece.bytes == to;
  if (piece.bytes > 0) {
    ring_->begin(piece.slot, IoKind::kRead, *file, begin, end - begin);
  }
  pieces_.push_back(piece);
  next_slot_ = (next_slot_ + 1) % ring_->count();
  next_offset_ += piece.bytes;
  if (piece.last) {
    ++next_stretch_;
    next_offset_ = 0;
  }
}

}  // namespace penstock
