#include "swap/store/stream_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {

Result<std::unique_ptr<StreamWriter>> StreamWriter::make(IoQueue& queue,
                                                         const TransferRing::Shape& shape) {
  Result<std::unique_ptr<TransferRing>> ring = TransferRing::make(queue, shape);
  if (ring.has_error()) {
    return std::move(ring).error();
  }
  return std::unique_ptr<StreamWriter>(new StreamWriter(std::move(ring).value()));
}

Result<std::span<std::byte>> StreamWriter::room(const File& file, std::uint64_t offset) {
  const bool joins = file_ == &file && offset == offset_ + filled_;
  if (file_ != nullptr && (!joins || filled_ == ring_->chunk_bytes())) {
    submit();
  }
  if (file_ == nullptr) {
    PENSTOCK_CHECK(!file.direct().supported || is_aligned(offset, kBlockBytes),
                   "a stream begins at {}, within a block", offset);
    PENSTOCK_TRY(wait(slot_));
    file_ = &file;
    offset_ = offset;
    filled_ = 0;
  }
  return ring_->chunk(slot_).subspan(filled_);
}

void StreamWriter::advance(std::uint64_t bytes) {
  filled_ += bytes;
  PENSTOCK_CHECK(filled_ <= ring_->chunk_bytes(), "{} bytes in a chunk of {}", filled_,
                 ring_->chunk_bytes());
}

Result<void> StreamWriter::write(const File& file, std::uint64_t offset,
                                 std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const Result<std::span<std::byte>> target = room(file, offset);
    if (target.has_error()) {
      return target.error();
    }
    const std::size_t count = std::min(target->size(), bytes.size());
    std::memcpy(target->data(), bytes.data(), count);
    advance(count);
    offset += count;
    bytes = bytes.subspan(count);
  }
  return {};
}

Result<void> StreamWriter::drain() {
  if (file_ != nullptr) {
    submit();
  }
  for (std::size_t slot = 0; slot < ring_->count(); ++slot) {
    (void)wait(slot);  // kept in failure_
  }
  if (failure_) {
    return *failure_;
  }
  return {};
}

void StreamWriter::submit() {
  const std::uint64_t bytes = file_->direct().supported ? align_up(filled_, kBlockBytes) : filled_;
  const std::span<std::byte> chunk = ring_->chunk(slot_);
  std::fill_n(chunk.begin() + static_cast<std::ptrdiff_t>(filled_), bytes - filled_, std::byte{0});
  if (bytes > 0) {
    ring_->begin(slot_, IoKind::kWrite, *file_, offset_, bytes);
  }
  written_bytes_ += bytes;
  slot_ = (slot_ + 1) % ring_->count();
  file_ = nullptr;
}

Result<void> StreamWriter::wait(std::size_t slot) {
  Result<void> written = ring_->wait(slot);
  if (written.has_error() && !failure_) {
    failure_ = std::move(written).error();
  }
  if (failure_) {
    return *failure_;
  }
  return {};
}

}  // namespace penstock
