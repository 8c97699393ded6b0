#include "swap/store/transfer_ring.h"

#include <fmt/format.h>

#include <utility>

#include "alloc/check.h"
#include "alloc/page_source.h"

namespace penstock {
namespace {

Waiting::Step step_of(IoQueue& queue) {
  return queue.caller_drives() ? Waiting::Step([&queue] { return queue.step(); }) : nullptr;
}

}  // namespace

Result<std::unique_ptr<TransferRing>> TransferRing::make(IoQueue& queue, const Shape& shape) {
  Result<Memory> memory = PageSource::make()->allocate(shape.chunk_bytes * shape.chunks);
  if (memory.has_error()) {
    return std::move(memory).error();
  }
  return std::unique_ptr<TransferRing>(
      new TransferRing(queue, shape.chunk_bytes, shape.chunks, std::move(memory).value()));
}

TransferRing::TransferRing(IoQueue& queue, std::uint64_t chunk_bytes, std::size_t chunks,
                           Memory memory)
    : queue_(queue),
      waiting_(step_of(queue)),
      chunk_bytes_(chunk_bytes),
      memory_(std::move(memory)),
      slots_(chunks) {
  for (Slot& slot : slots_) {
    slot.ring = this;
  }
  // Without registration (memlock) it costs more CPU time and is as good otherwise.
  registered_ = queue_.register_memory(memory_.span()).has_value();
}

TransferRing::~TransferRing() {
  {
    std::unique_lock lock(mutex_);
    for (const Slot& slot : slots_) {
      waiting_.wait(lock, finished_, [&slot] { return !slot.under_way; });
    }
  }
  if (registered_) {
    queue_.unregister_memory(memory_.span());
  }
}

std::span<std::byte> TransferRing::chunk(std::size_t index) const noexcept {
  return memory_.span().subspan(index * chunk_bytes_, chunk_bytes_);
}

void TransferRing::begin(std::size_t index, IoKind kind, const File& file, std::uint64_t offset,
                         std::uint64_t bytes) {
  Slot& slot = slots_[index];
  PENSTOCK_CHECK(bytes <= chunk_bytes_, "{} bytes into a chunk of {}", bytes, chunk_bytes_);
  {
    const std::lock_guard lock(mutex_);
    PENSTOCK_CHECK(!slot.under_way, "chunk {} is under way", index);
    slot.under_way = true;
    slot.told = false;
  }
  slot.op.kind = kind;
  slot.op.priority = IoPriority::kDemand;
  slot.op.file = &file;
  slot.op.data = chunk(index).data();
  slot.op.offset = offset;
  slot.op.bytes = bytes;
  slot.op.context = &slot;
  slot.op.on_complete = [](IoOp& op) noexcept {
    auto* const done = static_cast<Slot*>(op.context);
    done->ring->finished(*done);
  };
  queue_.submit(slot.op);
}

void TransferRing::finished(Slot& slot) noexcept {
  const std::lock_guard lock(mutex_);
  slot.under_way = false;
  finished_.notify_all();  // with the lock held: afterwards the ring may be gone
}

Result<void> TransferRing::wait(std::size_t index) {
  Slot& slot = slots_[index];
  std::unique_lock lock(mutex_);
  waiting_.wait(lock, finished_, [&slot] { return !slot.under_way; });
  if (std::exchange(slot.told, true) || slot.op.error == 0) {
    return {};
  }
  const IoOp& op = slot.op;
  return system_error(
      op.error,
      fmt::format("cannot {} {} at offset {}", op.kind == IoKind::kRead ? "read" : "write",
                  op.file->path(), op.error_offset),
      op.file->path());
}

}  // namespace penstock
