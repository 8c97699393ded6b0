#include "swap/transfer/stream_writer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "alloc/out_of_memory.h"
#include "swap/transfer/stream_transfer.h"

namespace penstock {

/// Chunks go to the caller empty, and from it to a file.
class StreamWriter::Writing final : public StreamTransfer {
 public:
  Writing(IoQueue& queue, std::unique_ptr<ChunkMemory> chunks)
      : StreamTransfer(queue, std::move(chunks)) {}

  static void begin(const std::shared_ptr<Writing>& writing) { writing->pump().move(writing); }
  Result<std::span<std::byte>> room(const File& file, std::uint64_t offset);
  void advance(std::uint64_t bytes);
  Result<void> drain();
  void end();
  std::uint64_t written_bytes() const noexcept { return written_bytes_; }

 private:
  std::uint64_t part_bytes(std::uint64_t chunk_bytes, std::uint64_t left) noexcept override;
  void fetch(Chunk& chunk) noexcept override { hand_out(chunk); }
  void deliver(Chunk& chunk) noexcept override;
  void io_ended(Chunk& chunk) noexcept override;
  void submit();
  Result<void> failure();

  std::atomic<bool> wants_chunk_ = false;
  // The caller's.
  Chunk* chunk_ = nullptr;      // being filled
  const File* file_ = nullptr;  // where it belongs
  std::uint64_t offset_ = 0;    // there, of the chunk's first byte
  std::uint64_t filled_ = 0;
  std::uint64_t written_bytes_ = 0;
  std::uint64_t writes_begun_ = 0;
  // Guarded by mutex().
  std::uint64_t writes_ended_ = 0;
  std::optional<Error> failure_;  // the first one
};

/// One at a time, when the caller has something for it.
std::uint64_t StreamWriter::Writing::part_bytes(std::uint64_t chunk_bytes,
                                                std::uint64_t /*left*/) noexcept {
  return wants_chunk_.exchange(false) ? chunk_bytes : 0;
}

Result<std::span<std::byte>> StreamWriter::Writing::room(const File& file, std::uint64_t offset) {
  const bool joins = file_ == &file && offset == offset_ + filled_;
  if (chunk_ != nullptr && (!joins || filled_ == chunk_->memory.size())) {
    submit();
  }
  PENSTOCK_TRY(failure());
  if (chunk_ == nullptr) {
    PENSTOCK_CHECK(!file.direct().supported || is_aligned(offset, kBlockBytes),
                   "a stream begins at {}, within a block", offset);
    wants_chunk_ = true;
    pump().look_again();
    chunk_ = &take();
    file_ = &file;
    offset_ = offset;
    filled_ = 0;
  }
  return chunk_->memory.subspan(filled_);
}

void StreamWriter::Writing::advance(std::uint64_t bytes) {
  filled_ += bytes;
  PENSTOCK_CHECK(filled_ <= chunk_->memory.size(), "{} bytes in a chunk of {}", filled_,
                 chunk_->memory.size());
}

void StreamWriter::Writing::submit() {
  Chunk& chunk = *std::exchange(chunk_, nullptr);
  if (filled_ == 0) {
    pump().left(chunk);
    return;
  }
  const std::uint64_t bytes = file_->direct().supported ? align_up(filled_, kBlockBytes) : filled_;
  std::ranges::fill(chunk.memory.subspan(filled_, bytes - filled_), std::byte{0});
  chunk.io.file = file_;
  chunk.io.offset = offset_;
  chunk.io.bytes = bytes;
  written_bytes_ += bytes;
  ++writes_begun_;
  pump().arrived(chunk);
}

void StreamWriter::Writing::deliver(Chunk& chunk) noexcept {
  begin_io(chunk, IoKind::kWrite, *chunk.io.file, chunk.io.offset, chunk.io.bytes);
}

void StreamWriter::Writing::io_ended(Chunk& chunk) noexcept {
  {
    const std::lock_guard lock(mutex());
    if (chunk.io.error != 0 && !failure_) {
      failure_ = said({chunk.io.error, std::generic_category()}, [&] { return *io_error(chunk); });
    }
    ++writes_ended_;
    changed();
  }
  pump().left(chunk);
}

Result<void> StreamWriter::Writing::failure() {
  const std::lock_guard lock(mutex());
  return failure_ ? Result<void>(*failure_) : Result<void>();
}

Result<void> StreamWriter::Writing::drain() {
  if (chunk_ != nullptr) {
    submit();
  }
  wait([this] { return writes_ended_ == writes_begun_; });
  return failure();
}

void StreamWriter::Writing::end() {
  if (chunk_ != nullptr) {
    pump().left(*chunk_);
  }
  stop();
}

Result<std::unique_ptr<StreamWriter>> StreamWriter::make(IoQueue& queue, const ChunkShape& shape) {
  Result<std::unique_ptr<ChunkMemory>> chunks = ChunkMemory::make(queue, shape);
  PENSTOCK_TRY(chunks);
  auto writing = std::make_shared<Writing>(queue, std::move(chunks).value());
  Writing::begin(writing);
  return std::unique_ptr<StreamWriter>(new StreamWriter(std::move(writing)));
}

StreamWriter::StreamWriter(std::shared_ptr<Writing> writing) : writing_(std::move(writing)) {}

StreamWriter::~StreamWriter() {
  writing_->end();
}

Result<std::span<std::byte>> StreamWriter::room(const File& file, std::uint64_t offset) {
  return writing_->room(file, offset);
}

void StreamWriter::advance(std::uint64_t bytes) {
  writing_->advance(bytes);
}

Result<void> StreamWriter::write(const File& file, std::uint64_t offset,
                                 std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const Result<std::span<std::byte>> target = room(file, offset);
    PENSTOCK_TRY(target);
    const std::size_t count = std::min(target->size(), bytes.size());
    std::memcpy(target->data(), bytes.data(), count);
    advance(count);
    offset += count;
    bytes = bytes.subspan(count);
  }
  return {};
}

Result<void> StreamWriter::drain() {
  return writing_->drain();
}

std::uint64_t StreamWriter::written_bytes() const noexcept {
  return writing_->written_bytes();
}

}  // namespace penstock
