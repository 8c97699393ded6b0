#include "swap/store/store_transfer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/sabotage.h"
#include "swap/store/checksum.h"
#include "swap/store/transfer_error.h"

namespace penstock {

void StoreTransfer::FreeAligned::operator()(std::byte* block) const noexcept {
  std::free(block);
}

StoreTransfer::StoreTransfer(Place place) : place_(std::move(place)) {}

void StoreTransfer::start_write(std::span<const std::byte> source, IoPriority priority,
                                OnComplete on_complete) {
  // The engine never writes through an operation of kind kWrite; one pointer serves both
  // directions.
  start(IoKind::kWrite, const_cast<std::byte*>(source.data()), priority, std::move(on_complete));
}

void StoreTransfer::start_read(std::span<std::byte> target, IoPriority priority,
                               OnComplete on_complete) {
  start(IoKind::kRead, target.data(), priority, std::move(on_complete));
}

void StoreTransfer::promote() {
  place_.queue->promote(body_);
  place_.queue->promote(trailer_);
  for (Chunk& chunk : chunks_) {
    place_.queue->promote(chunk.op);
  }
}

void StoreTransfer::start(IoKind kind, std::byte* memory, IoPriority priority,
                          OnComplete on_complete) {
  kind_ = kind;
  memory_ = memory;
  on_complete_ = std::move(on_complete);
  prepare_trailer(priority);
  std::array<IoOp*, kChunksMax + 1> ops{};
  const std::size_t body_ops = prepare_body(priority, ops);
  ops[body_ops] = &trailer_;
  pending_ops_ = body_ops + 1;
  // Everything may be complete, and this object gone, before submit() returns: touch nothing after
  // it.
  place_.queue->submit(std::span<IoOp* const>(ops).first(body_ops + 1));
}

std::size_t StoreTransfer::prepare_body(IoPriority priority, std::span<IoOp*> ops) {
  if (place_.stored.body_bytes() == 0) {
    return 0;
  }
  if (!is_aligned(memory_, place_.file->direct().memory_alignment)) {
    return prepare_chunks(priority, ops);
  }
  prepare_op(body_, priority, memory_, place_.stored.extent.offset, place_.stored.body_bytes());
  ops[0] = &body_;
  return 1;
}

std::size_t StoreTransfer::prepare_chunks(IoPriority priority, std::span<IoOp*> ops) {
  std::size_t used = 0;
  for (Chunk& chunk : chunks_) {
    std::optional<Buffer> buffer = place_.staging->try_acquire_slot(kChunkBytes);
    if (!buffer && used == 0) {
      // One chunk must be had, or nothing moves; it may be pageable.
      Result<Buffer> pageable = place_.staging->acquire_overflow(kChunkBytes);
      if (pageable.has_value()) {
        buffer = std::move(pageable).value();
      }
    }
    if (!buffer) {
      break;
    }
    chunk.buffer = std::move(*buffer);
    prepare_op(chunk.op, priority, chunk.buffer.data(), 0, 0);
    if (!load_chunk(chunk)) {
      break;
    }
    ops[used++] = &chunk.op;
  }
  if (used == 0) {
    throw std::bad_alloc();
  }
  return used;
}

void StoreTransfer::prepare_trailer(IoPriority priority) {
  const std::uint64_t bytes = place_.stored.trailer_bytes();
  trailer_block_.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, bytes)));
  if (!trailer_block_) {
    throw std::bad_alloc();
  }
  const std::uint64_t tail = place_.stored.tail_bytes();
  if (kind_ == IoKind::kWrite) {
    const std::span<std::byte> block(trailer_block_.get(), bytes);
    std::fill(block.begin(), block.end(), std::byte{0});
    if (tail > 0) {  // an empty tensor may have no memory
      std::memcpy(block.data(), memory_ + place_.stored.body_bytes(), tail);
    }
    place_.stored.identity.encode(block.last(IdentityBlock::kBytes));
  }
  prepare_op(trailer_, priority, trailer_block_.get(),
             place_.stored.extent.offset + place_.stored.body_bytes(), bytes);
}

void StoreTransfer::prepare_op(IoOp& op, IoPriority priority, std::byte* data, std::uint64_t offset,
                               std::uint64_t bytes) {
  op.kind = kind_;
  op.priority = priority;
  op.file = place_.file;
  op.data = data;
  op.offset = offset;
  op.bytes = bytes;
  op.context = this;
  op.on_complete = [](IoOp& done) noexcept {
    static_cast<StoreTransfer*>(done.context)->finished(done);
  };
}

/// Gives `chunk` the next part of the body; false if none is left.
bool StoreTransfer::load_chunk(Chunk& chunk) {
  const std::uint64_t left = place_.stored.body_bytes() - next_chunk_offset_;
  if (left == 0 || error_) {
    return false;
  }
  chunk.body_offset = next_chunk_offset_;
  chunk.op.bytes = std::min(left, kChunkBytes);
  chunk.op.offset = place_.stored.extent.offset + chunk.body_offset;
  if (kind_ == IoKind::kWrite) {
    std::memcpy(chunk.op.data, memory_ + chunk.body_offset, chunk.op.bytes);
  }
  next_chunk_offset_ += chunk.op.bytes;
  return true;
}

void StoreTransfer::finished(IoOp& op) {
  if (op.error != 0 && !error_) {
    error_ = drive_error(op, place_.tensor_name, place_.stored.bytes());
  }
  const auto owner = std::find_if(chunks_.begin(), chunks_.end(),
                                  [&op](const Chunk& chunk) { return &chunk.op == &op; });
  if (owner != chunks_.end() && op.error == 0) {
    if (kind_ == IoKind::kRead) {
      std::memcpy(memory_ + owner->body_offset, op.data, op.bytes);
    }
    if (load_chunk(*owner)) {
      place_.queue->submit(op);
      return;
    }
  }
  if (--pending_ops_ == 0) {
    complete();
  }
}

void StoreTransfer::complete() {
  if (!error_ && kind_ == IoKind::kRead) {
    error_ = verify();
  }
  for (Chunk& chunk : chunks_) {
    chunk.buffer = Buffer();
  }
  OnComplete done = std::move(on_complete_);
  done(std::move(error_));  // may destroy this object
}

std::optional<Error> StoreTransfer::verify() {
  const IdentityBlock& expected = place_.stored.identity;
  const std::span<const std::byte> trailer(trailer_block_.get(), place_.stored.trailer_bytes());
  const std::string difference = expected.difference(trailer.last(IdentityBlock::kBytes));
  if (!difference.empty()) {
    return content_error(*place_.file, place_.stored, place_.tensor_name, difference);
  }
  std::ranges::copy(trailer.first(place_.stored.tail_bytes()),
                    memory_ + place_.stored.body_bytes());
  const auto level = static_cast<IntegrityLevel>(expected.level);
  if (!sabotaged(Sabotage::kChecksum) &&
      checksum(level, {memory_, expected.bytes}) != expected.checksum) {
    return content_error(*place_.file, place_.stored, place_.tensor_name,
                         "bytes whose checksum is not that of what was written");
  }
  return std::nullopt;
}

}  // namespace penstock
