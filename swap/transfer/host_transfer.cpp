#include "swap/transfer/host_transfer.h"

#include <fmt/format.h>

#include "alloc/bytes.h"

namespace penstock {

void HostTransfer::release_chunks() noexcept {
  buffers_ = {};
  memory_->keep_trailer(std::move(trailer_));
}

void HostTransfer::promote() {
  for (Chunk& chunk : std::span(chunks_).first(chunk_count_)) {
    queue().promote(chunk.io);
  }
}

Result<void> HostTransfer::prepare(BufferPool& staging) {
  const bool is_aligned_for_drive = request().drive()->stored.body_bytes() == 0 ||
                                    is_aligned(request().memory()->content.data(),
                                               request().drive()->file->direct().memory_alignment);
  PENSTOCK_TRY(is_aligned_for_drive ? prepare_in_place() : prepare_chunks(staging));
  pump_.emplace(std::span(chunks_).first(chunk_count_));
  return {};
}

/// The body where it lies, and a block for the end of the layout.
Result<void> HostTransfer::prepare_in_place() {
  Result<Memory> trailer = memory_->take_trailer();
  if (trailer.has_error()) {
    return no_memory(trailer.error());
  }
  trailer_ = std::move(trailer).value();
  if (const std::uint64_t body = request().drive()->stored.body_bytes(); body > 0) {
    add_chunk(request().memory()->content.first(body), 0);
  }
  add_chunk(trailer_.span().first(request().drive()->stored.trailer_bytes()),
            request().drive()->stored.body_bytes());
  return {};
}

Result<void> HostTransfer::prepare_chunks(BufferPool& staging) {
  const std::uint64_t bytes = kHostChunks.chunk_bytes;
  for (std::uint64_t offset = 0; offset < layout_bytes() && chunk_count_ < chunks_.size();
       offset += bytes) {
    std::optional<Buffer> buffer = staging.try_acquire_slot(bytes);
    if (!buffer && chunk_count_ == 0) {
      // One chunk must be had, or nothing moves; it may be pageable.
      Result<Buffer> pageable = staging.acquire_overflow(bytes);
      if (pageable.has_error()) {
        return no_memory(pageable.error());
      }
      buffer = std::move(pageable).value();
    }
    if (!buffer) {
      break;
    }
    buffers_[chunk_count_] = std::move(*buffer);
    add_chunk(buffers_[chunk_count_].span(), std::nullopt);
  }
  return {};
}

void HostTransfer::add_chunk(std::span<std::byte> memory, std::optional<std::uint64_t> lies_at) {
  Chunk& chunk = chunks_[chunk_count_++];
  chunk.memory = memory;
  chunk.lies_at = lies_at;
}

Error HostTransfer::no_memory(const Error& cause) const {
  const OnDrive& there = *request().drive();
  Error error = cause;
  error.message = fmt::format(
      "no memory to {} tensor '{}' ({}) {} {}: {}; free memory of this machine and try again",
      request().from_drive() ? "read" : "write", request().tensor_name(),
      format_bytes(there.stored.bytes()), request().from_drive() ? "from" : "to",
      there.file->path(), cause.message);
  error.code = Fault::kExhausted;
  error.path = there.file->path();
  error.tensor = request().tensor_name();
  return error;
}

}  // namespace penstock
