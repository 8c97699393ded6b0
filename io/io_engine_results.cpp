#include <algorithm>
#include <cerrno>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "alloc/sabotage.h"
#include "io/file.h"
#include "io/io_engine.h"

// What results mean for their pieces and operations.

namespace penstock {
namespace {

// Where a transfer on this file may go on after a short one.
std::uint64_t step_bytes(const File& file) {
  const DirectIo& direct = file.direct();
  return direct.supported ? std::max(direct.memory_alignment, direct.offset_alignment) : 1;
}

// What it means that the kernel moved nothing and names no error.
int errno_of_no_progress(IoKind kind) {
  return kind == IoKind::kRead ? ENODATA : EIO;
}

}  // namespace

IoStats IoEngine::stats() const noexcept {
  IoStats stats = stats_;
  stats.busy_ns += in_flight_ != 0 ? busy_period_ns() : 0;
  return stats;
}

std::uint64_t IoEngine::busy_period_ns() const noexcept {
  const auto busy = std::chrono::duration_cast<std::chrono::nanoseconds>(now() - busy_since_);
  return static_cast<std::uint64_t>(busy.count());
}

void IoEngine::finish(std::uint32_t piece_index, std::int64_t result) {
  PENSTOCK_CHECK(
      piece_index < pieces_.size() && pieces_[piece_index].op != nullptr && in_flight_ != 0,
      "result {} for request {}, which is not in flight", result, piece_index);
  Piece& piece = pieces_[piece_index];
  IoOp& op = *piece.op;
  if (--in_flight_ == 0) {
    stats_.busy_ns += busy_period_ns();
  }
  if (sabotaged(Sabotage::kResultCheck)) {
    result = piece.bytes;
  }
  if (result == -EINTR || result == -EAGAIN) {
    ++stats_.retries;
    again_.push_back(piece_index);
    if (op.error != 0) {
      drop_again(op);
    }
  } else if (result <= 0) {
    const int error = result == 0 ? errno_of_no_progress(op.kind) : static_cast<int>(-result);
    const std::uint64_t offset = piece.offset;
    drop_piece(piece);
    fail(op, error, offset);
  } else {
    take_moved(piece, static_cast<std::uint64_t>(result));
  }
  finish_op_if_over(op);
}

void IoEngine::take_moved(Piece& piece, std::uint64_t moved_bytes) {
  IoOp& op = *piece.op;
  PENSTOCK_CHECK(moved_bytes <= piece.bytes, "moved {} of {} bytes at {}", moved_bytes, piece.bytes,
                 piece.offset);
  (op.kind == IoKind::kRead ? stats_.read_bytes : stats_.write_bytes) += moved_bytes;
  if (moved_bytes == piece.bytes) {
    op.done_bytes += moved_bytes;
    drop_piece(piece);
    return;
  }
  ++stats_.short_transfers;
  if (op.error != 0) {
    drop_piece(piece);
  } else {
    continue_piece(piece, static_cast<std::uint32_t>(moved_bytes));
  }
}

// Direct I/O goes on at aligned places only: of 8192 bytes, after 5000 were moved and with 4096 to
// align to, the last 904 are moved again. Less than one step leaves the piece where it was; the
// second time in a row that is no accident: a file that ends within the step.
void IoEngine::continue_piece(Piece& piece, std::uint32_t moved_bytes) {
  IoOp& op = *piece.op;
  const auto kept_bytes = static_cast<std::uint32_t>(align_down(moved_bytes, step_bytes(*op.file)));
  if (kept_bytes == 0 && piece.stalled) {
    const std::uint64_t offset = piece.offset + moved_bytes;
    drop_piece(piece);
    fail(op, errno_of_no_progress(op.kind), offset);
    return;
  }
  piece.stalled = kept_bytes == 0;
  piece.data += kept_bytes;
  piece.offset += kept_bytes;
  piece.bytes -= kept_bytes;
  piece_bytes_ -= kept_bytes;
  op.done_bytes += kept_bytes;
  again_.push_back(piece.index);
}

void IoEngine::drop_piece(Piece& piece) noexcept {
  --piece.op->pieces_in_flight;
  piece_bytes_ -= piece.bytes;
  piece.op = nullptr;
  free_pieces_.push_back(piece.index);
}

void IoEngine::drop_again(const IoOp& op) noexcept {
  std::erase_if(again_, [&](std::uint32_t index) {
    const bool of_this_op = pieces_[index].op == &op;
    if (of_this_op) {
      drop_piece(pieces_[index]);
    }
    return of_this_op;
  });
}

// Nothing more of a failed operation is issued; what the kernel has is waited for. Several pieces
// may fail: the first place in the file is the one to report. One that was ended early failed at
// its begin, before which there is no place.
void IoEngine::fail(IoOp& op, int error, std::uint64_t offset) noexcept {
  if (op.place != IoOp::Place::kNowhere) {
    unlink(op);
  }
  if (op.error == 0 || offset < op.error_offset) {
    op.error = error;
    op.error_offset = offset;
  }
  drop_again(op);
}

void IoEngine::finish_op_if_over(IoOp& op) noexcept {
  if (op.pieces_in_flight != 0 || (op.error == 0 && op.done_bytes != op.bytes)) {
    return;
  }
  ++(op.kind == IoKind::kRead ? stats_.read_ops : stats_.write_ops);
  if (op.error != 0) {
    ++stats_.errors;
  }
  --unfinished_ops_;
  push(IoOp::Place::kFinished, op);
}

}  // namespace penstock
