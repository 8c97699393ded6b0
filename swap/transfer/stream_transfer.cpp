#include "swap/transfer/stream_transfer.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "io/file.h"

namespace penstock {

StreamTransfer::StreamTransfer(IoQueue& queue, std::unique_ptr<ChunkMemory> memory)
    : Transfer(std::numeric_limits<std::uint64_t>::max()),
      queue_(queue),
      waiting_(queue.caller_drives() ? Waiting::Step([&queue] { return queue.step(); }) : nullptr),
      memory_(std::move(memory)),
      pump_(memory_->chunks()) {
  handed_out_.reserve(memory_->chunks().size());
}

void StreamTransfer::begin_io(Chunk& chunk, IoKind kind, const File& file, std::uint64_t offset,
                              std::uint64_t bytes) {
  chunk.prepare_io(kind, IoPriority::kDemand, file, offset, bytes);
  chunk.io.on_complete = [](IoOp& op) noexcept {
    auto& done = *static_cast<Chunk*>(op.context);
    static_cast<StreamTransfer&>(*done.transfer).io_ended(done);
  };
  queue_.submit(chunk.io);
}

std::optional<Error> StreamTransfer::io_error(const Chunk& chunk) {
  const IoOp& op = chunk.io;
  if (op.error == 0) {
    return std::nullopt;
  }
  return system_error(
      op.error,
      fmt::format("cannot {} {} at offset {}", op.kind == IoKind::kRead ? "read" : "write",
                  op.file->path(), op.error_offset),
      op.file->path());
}

void StreamTransfer::hand_out(Chunk& chunk) noexcept {
  const std::lock_guard lock(mutex_);
  handed_out_.push_back(&chunk);
  changed();
}

Chunk& StreamTransfer::take() {
  wait([this] { return !handed_out_.empty(); });
  const std::lock_guard lock(mutex_);
  Chunk* const chunk = handed_out_.front();
  handed_out_.erase(handed_out_.begin());
  return *chunk;
}

void StreamTransfer::stop() {
  pump_.stop(*this, Error{make_error_code(Fault::kClosed), {}, {}, {}});
  for (;;) {
    wait([this] { return is_over_ || !handed_out_.empty(); });
    {
      const std::lock_guard lock(mutex_);
      if (handed_out_.empty()) {
        return;
      }
    }
    pump_.left(take());
  }
}

void StreamTransfer::over() noexcept {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed();
}

}  // namespace penstock
