#include "swap/store/store_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/out_of_memory.h"
#include "alloc/sabotage.h"
#include "swap/store/checksum.h"
#include "swap/store/transfer_error.h"

namespace penstock {

Result<std::shared_ptr<StoreTransfer>> StoreTransfer::of_write(Place place,
                                                               std::span<const std::byte> source,
                                                               IoPriority priority) {
  // The engine never writes through an operation of kind kWrite; one pointer serves both
  // directions.
  return make(std::move(place), IoKind::kWrite, const_cast<std::byte*>(source.data()), priority);
}

Result<std::shared_ptr<StoreTransfer>> StoreTransfer::of_read(Place place,
                                                              std::span<std::byte> target,
                                                              IoPriority priority) {
  return make(std::move(place), IoKind::kRead, target.data(), priority);
}

Result<std::shared_ptr<StoreTransfer>> StoreTransfer::make(Place place, IoKind kind,
                                                           std::byte* memory, IoPriority priority) {
  std::shared_ptr<StoreTransfer> transfer(new StoreTransfer(std::move(place), kind, memory));
  PENSTOCK_TRY(transfer->prepare_trailer(priority));
  PENSTOCK_TRY(transfer->prepare_body(priority));
  transfer->ops_[transfer->pending_ops_++] = &transfer->trailer_;
  return transfer;
}

void StoreTransfer::promote() {
  place_.queue->promote(body_);
  place_.queue->promote(trailer_);
  for (Chunk& chunk : chunks_) {
    place_.queue->promote(chunk.op);
  }
}

void StoreTransfer::start(OnComplete on_complete) {
  on_complete_ = std::move(on_complete);
  // Everything may be complete, and this object gone, before submit() returns: touch nothing after
  // it.
  place_.queue->submit(std::span<IoOp* const>(ops_).first(pending_ops_));
}

Result<void> StoreTransfer::prepare_body(IoPriority priority) {
  if (place_.stored.body_bytes() == 0) {
    return {};
  }
  if (!is_aligned(memory_, place_.file->direct().memory_alignment)) {
    return prepare_chunks(priority);
  }
  prepare_op(body_, priority, memory_, place_.stored.extent.offset, place_.stored.body_bytes());
  ops_[pending_ops_++] = &body_;
  return {};
}

Result<void> StoreTransfer::prepare_chunks(IoPriority priority) {
  for (Chunk& chunk : chunks_) {
    std::optional<Buffer> buffer = place_.staging->try_acquire_slot(kChunkBytes);
    if (!buffer && pending_ops_ == 0) {
      // One chunk must be had, or nothing moves; it may be pageable.
      Result<Buffer> pageable = place_.staging->acquire_overflow(kChunkBytes);
      if (pageable.has_error()) {
        return no_memory(pageable.error());
      }
      buffer = std::move(pageable).value();
    }
    if (!buffer) {
      break;
    }
    chunk.buffer = std::move(*buffer);
    prepare_op(chunk.op, priority, chunk.buffer.data(), 0, 0);
    if (!load_chunk(chunk)) {
      break;
    }
    ops_[pending_ops_++] = &chunk.op;
  }
  return {};
}

Result<void> StoreTransfer::prepare_trailer(IoPriority priority) {
  Result<Memory> memory = place_.trailers->allocate(kTrailerBytes);
  if (memory.has_error()) {
    return no_memory(memory.error());
  }
  trailer_block_ = std::move(memory).value();
  const std::span<std::byte> block = trailer_block_.span().first(place_.stored.trailer_bytes());
  const std::uint64_t tail = place_.stored.tail_bytes();
  if (kind_ == IoKind::kWrite) {
    std::fill(block.begin(), block.end(), std::byte{0});
    if (tail > 0) {  // an empty tensor may have no memory
      std::memcpy(block.data(), memory_ + place_.stored.body_bytes(), tail);
    }
    place_.stored.identity.encode(block.last(IdentityBlock::kBytes));
  }
  prepare_op(trailer_, priority, block.data(),
             place_.stored.extent.offset + place_.stored.body_bytes(), block.size());
  return {};
}

Error StoreTransfer::no_memory(const Error& cause) const {
  const bool reads = kind_ == IoKind::kRead;
  Error error = cause;
  error.message = fmt::format(
      "no memory to {} tensor '{}' ({}) {} {}: {}; free memory of this machine and try again",
      reads ? "read" : "write", place_.tensor_name, format_bytes(place_.stored.bytes()),
      reads ? "from" : "to", place_.file->path(), cause.message);
  error.code = Fault::kExhausted;
  error.path = place_.file->path();
  error.tensor = place_.tensor_name;
  return error;
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
    error_ = said({op.error, std::generic_category()},
                  [&] { return drive_error(op, place_.tensor_name, place_.stored.bytes()); });
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
    try {
      error_ = verify();
    } catch (const std::bad_alloc&) {  // of the words for what is wrong
      error_ = out_of_memory();
      error_->code = make_error_code(Fault::kCorrupt);
    }
  }
  for (Chunk& chunk : chunks_) {
    chunk.buffer = Buffer();
  }
  OnComplete done = std::move(on_complete_);
  done(std::move(error_));  // may destroy this object
}

std::optional<Error> StoreTransfer::verify() {
  const IdentityBlock& expected = place_.stored.identity;
  const std::span<const std::byte> trailer =
      trailer_block_.span().first(place_.stored.trailer_bytes());
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
