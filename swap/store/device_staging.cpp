#include "swap/store/device_staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/check.h"
#include "alloc/pinned_source.h"
#include "io/file.h"
#include "swap/store/transfer_error.h"

namespace penstock {
namespace {

// Both know the memory as pinned, once and at its exact size.
std::vector<PinHook> hooks_of(IoQueue& queue, const std::shared_ptr<Device>& device) {
  PinHook ring;
  ring.pin = [&queue](std::span<std::byte> memory) {
    (void)queue.register_memory(memory);  // dearer without, not wrong
    return Result<void>();
  };
  ring.unpin = [&queue](std::span<std::byte> memory) { queue.unregister_memory(memory); };
  PinHook copies;
  copies.pin = [device](std::span<std::byte> memory) { return device->pin(memory); };
  copies.unpin = [device](std::span<std::byte> memory) { device->unpin(memory); };
  return {std::move(ring), std::move(copies)};
}

}  // namespace

Result<std::unique_ptr<DeviceStaging>> DeviceStaging::open(IoQueue& queue,
                                                           const std::shared_ptr<Device>& device,
                                                           std::shared_ptr<MemorySource> memory,
                                                           const Shape& shape) {
  PENSTOCK_CHECK(
      shape.chunks > 0 && shape.chunk_bytes > 0 && shape.chunk_bytes % IdentityBlock::kBytes == 0,
      "{} chunks of {} bytes", shape.chunks, shape.chunk_bytes);
  Result<Memory> chunks = PinnedSource::make(std::move(memory), hooks_of(queue, device))
                              ->allocate(shape.chunks * shape.chunk_bytes);
  PENSTOCK_TRY(chunks);
  Result<std::unique_ptr<CopyStream>> in = CopyStream::open(device);
  PENSTOCK_TRY(in);
  Result<std::unique_ptr<CopyStream>> out = CopyStream::open(device);
  PENSTOCK_TRY(out);
  return std::unique_ptr<DeviceStaging>(
      new DeviceStaging(queue, shape, std::move(*chunks), std::move(*in), std::move(*out)));
}

DeviceStaging::DeviceStaging(IoQueue& queue, const Shape& shape, Memory memory,
                             std::unique_ptr<CopyStream> in, std::unique_ptr<CopyStream> out)
    : queue_(queue),
      chunk_bytes_(shape.chunk_bytes),
      memory_(std::move(memory)),
      chunks_(shape.chunks),
      in_(std::move(in)),
      out_(std::move(out)) {
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunks_[index].staging = this;
    chunks_[index].memory = memory_.span().subspan(index * chunk_bytes_, chunk_bytes_);
  }
}

DeviceStaging::~DeviceStaging() {
  Lock lock(mutex_);
  over_.wait(lock, [this] { return transfers_.empty() && telling_ == 0; });
}

DeviceStaging::Transfer::Transfer(IoKind direction, Request asked, OnComplete on_complete)
    : kind(direction),
      request(std::move(asked)),
      done(std::move(on_complete)),
      checksum(static_cast<IntegrityLevel>(request.stored.identity.level), request.stored.bytes()) {
}

std::uint64_t DeviceStaging::Transfer::content_bytes(std::uint64_t offset,
                                                     std::uint64_t bytes) const noexcept {
  const std::uint64_t end = request.stored.bytes();
  return offset < end ? std::min(bytes, end - offset) : 0;
}

std::span<std::byte> DeviceStaging::Chunk::content() const {
  return memory.first(transfer->content_bytes(offset, bytes));
}

// Behind the content there may be an identity alone.
DeviceSpan DeviceStaging::Chunk::device_side() const {
  const std::uint64_t length = transfer->content_bytes(offset, bytes);
  return transfer->request.memory.part(length == 0 ? 0 : offset, length);
}

// --- Asking -------------------------------------------------------------------------------------

void DeviceStaging::begin(IoKind kind, Request request, OnComplete done) {
  if (request.memory.bytes != request.stored.bytes()) {
    done(fault(Fault::kWrongSize,
               fmt::format("tensor '{}' has {} bytes, the device's memory for it {}",
                           request.tensor_name, request.stored.bytes(), request.memory.bytes)));
    return;
  }
  CopyStream& copies = kind == IoKind::kRead ? *in_ : *out_;
  if (Result<void> ordered = copies.follow(request.stream); ordered.has_error()) {
    done(std::move(ordered).error());
    return;
  }
  Lock lock(mutex_);
  transfers_.push_back(std::make_shared<Transfer>(kind, std::move(request), std::move(done)));
  move_on(lock);
}

void DeviceStaging::move_on(Lock& lock) {
  std::vector<Chunk*> given;
  while (Chunk* const chunk = give_chunk()) {
    given.push_back(chunk);
  }
  lock.unlock();
  for (Chunk* const chunk : given) {
    start(*chunk);
  }
}

DeviceStaging::Chunk* DeviceStaging::give_chunk() {
  const auto wants = [](const std::shared_ptr<Transfer>& transfer) {
    return !transfer->error && transfer->next_offset < transfer->request.stored.layout_bytes();
  };
  const auto found = std::ranges::find_if(transfers_, wants);
  const auto free =
      std::ranges::find_if(chunks_, [](const Chunk& chunk) { return chunk.transfer == nullptr; });
  if (found == transfers_.end() || free == chunks_.end()) {
    return nullptr;
  }
  Transfer& transfer = **found;
  free->transfer = *found;
  free->offset = transfer.next_offset;
  free->bytes =
      std::min(chunk_bytes_, transfer.request.stored.layout_bytes() - transfer.next_offset);
  free->has_arrived = false;
  transfer.next_offset += free->bytes;
  ++transfer.users;
  return &*free;
}

void DeviceStaging::start(Chunk& chunk) {
  if (chunk.transfer->is_read()) {
    submit(chunk);
  } else {
    receive(chunk);
  }
}

void DeviceStaging::submit(Chunk& chunk) {
  const Request& request = chunk.transfer->request;
  chunk.op.kind = chunk.transfer->kind;
  chunk.op.priority = chunk.transfer->is_read() ? IoPriority::kDemand : IoPriority::kBehind;
  chunk.op.file = request.file;
  chunk.op.data = chunk.memory.data();
  chunk.op.offset = request.stored.extent.offset + chunk.offset;
  chunk.op.bytes = chunk.bytes;
  chunk.op.context = &chunk;
  chunk.op.on_complete = [](IoOp& op) noexcept {
    auto* const done = static_cast<Chunk*>(op.context);
    done->staging->moved(*done);
  };
  queue_.submit(chunk.op);
}

// On the I/O thread: a read or write of a chunk is over.
void DeviceStaging::moved(Chunk& chunk) {
  std::optional<Error> error;
  if (chunk.op.error != 0) {
    const Request& request = chunk.transfer->request;
    error = drive_error(chunk.op, request.tensor_name, request.stored.bytes());
  }
  if (chunk.transfer->is_read()) {
    arrived(chunk, std::move(error));
  } else {
    give_back(chunk, std::move(error));
  }
}

// --- In order -----------------------------------------------------------------------------------

// Chunks arrive in any order, a checksum wants theirs. Always the same thread for one direction.
void DeviceStaging::arrived(Chunk& chunk, std::optional<Error> error) {
  const std::shared_ptr<Transfer> transfer = chunk.transfer;
  const bool failed = error.has_value();
  {
    const Lock lock(mutex_);
    chunk.has_arrived = !failed;
    ++transfer->users;
  }
  if (failed) {
    give_back(chunk, std::move(error));
  }
  see_in_order(*transfer);
  Lock lock(mutex_);
  let_go(transfer, lock);
}

void DeviceStaging::see_in_order(Transfer& transfer) {
  bool failed = false;
  while (Chunk* const chunk = next_in_order(transfer, failed)) {
    if (failed) {
      give_back(*chunk, std::nullopt);
      continue;
    }
    see(*chunk);
    if (transfer.is_read()) {
      send(*chunk);
    } else {
      submit(*chunk);
    }
  }
}

DeviceStaging::Chunk* DeviceStaging::next_in_order(const Transfer& transfer, bool& failed) {
  const Lock lock(mutex_);
  failed = transfer.error.has_value();
  const auto found = std::ranges::find_if(chunks_, [&](const Chunk& chunk) {
    return chunk.transfer.get() == &transfer && chunk.has_arrived &&
           (failed || chunk.offset == transfer.seen_offset);
  });
  if (found == chunks_.end()) {
    return nullptr;
  }
  found->has_arrived = false;
  return &*found;
}

void DeviceStaging::see(Chunk& chunk) {
  Transfer& transfer = *chunk.transfer;
  const StoredTensor& stored = transfer.request.stored;
  const std::span<std::byte> content = chunk.content();
  const std::span<std::byte> layout = chunk.memory.first(chunk.bytes);
  transfer.checksum.update(content);
  transfer.seen_offset += chunk.bytes;
  if (!transfer.is_read()) {
    std::ranges::fill(layout.subspan(content.size()), std::byte{});
  }
  if (transfer.seen_offset < stored.layout_bytes()) {
    return;
  }
  transfer.checksum_seen = transfer.checksum.finish();
  const std::span<std::byte> identity = layout.last(IdentityBlock::kBytes);
  if (transfer.is_read()) {
    transfer.difference = stored.identity.difference(identity);
    return;
  }
  IdentityBlock written = stored.identity;
  written.checksum = transfer.checksum_seen;
  written.encode(identity);
}

// --- The device's side --------------------------------------------------------------------------

void DeviceStaging::send(Chunk& chunk) {
  in_->copy_in(chunk.device_side(), chunk.content(), [this, &chunk](std::optional<Error> error) {
    give_back(chunk, of_device(chunk, std::move(error)));
  });
}

void DeviceStaging::receive(Chunk& chunk) {
  out_->copy_out(chunk.content(), chunk.device_side(), [this, &chunk](std::optional<Error> error) {
    arrived(chunk, of_device(chunk, std::move(error)));
  });
}

// --- The end ------------------------------------------------------------------------------------

void DeviceStaging::give_back(Chunk& chunk, std::optional<Error> error) {
  Lock lock(mutex_);
  const std::shared_ptr<Transfer> transfer = std::exchange(chunk.transfer, nullptr);
  if (error && !transfer->error) {
    transfer->error = std::move(error);
  }
  let_go(transfer, lock);
}

void DeviceStaging::let_go(const std::shared_ptr<Transfer>& transfer, Lock& lock) {
  const bool is_over =
      --transfer->users == 0 &&
      (transfer->error || transfer->next_offset == transfer->request.stored.layout_bytes());
  if (!is_over) {
    move_on(lock);
    return;
  }
  std::erase(transfers_, transfer);
  ++telling_;
  move_on(lock);
  transfer->done(outcome(*transfer));
  lock.lock();
  --telling_;
  over_.notify_all();  // with the lock held: afterwards this may be gone
}

Result<std::uint64_t> DeviceStaging::outcome(Transfer& transfer) {
  if (transfer.error) {
    transfer.error->tensor = transfer.request.tensor_name;
    return *transfer.error;
  }
  const StoredTensor& stored = transfer.request.stored;
  if (transfer.is_read() && transfer.difference.empty() &&
      transfer.checksum_seen != stored.identity.checksum) {
    transfer.difference = "bytes whose checksum is not that of what was written";
  }
  if (!transfer.difference.empty()) {
    return content_error(*transfer.request.file, stored, transfer.request.tensor_name,
                         transfer.difference);
  }
  return transfer.checksum_seen;
}

std::optional<Error> DeviceStaging::of_device(const Chunk& chunk, std::optional<Error> error) {
  if (error) {
    error->message =
        fmt::format("tensor '{}': {}", chunk.transfer->request.tensor_name, error->message);
  }
  return error;
}

}  // namespace penstock
