#include "swap/store/device_staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/check.h"
#include "alloc/out_of_memory.h"
#include "swap/store/transfer_error.h"

namespace penstock {
namespace {

// The driver's words say nothing of tensors.
std::optional<Error> of_device(const DeviceTransfer& transfer, std::optional<Error> error) {
  if (error) {
    error->message = fmt::format("tensor '{}': {}", transfer.tensor_name(), error->message);
  }
  return error;
}

}  // namespace

Result<std::unique_ptr<DeviceStaging>> DeviceStaging::open(IoQueue& queue,
                                                           const std::shared_ptr<Device>& device,
                                                           MemorySource& pinned, const Shape& shape,
                                                           std::shared_ptr<DirectStorage> direct) {
  PENSTOCK_CHECK(shape.chunks > 0 && shape.chunk_bytes >= 2 * kBlockBytes &&
                     shape.chunk_bytes % kBlockBytes == 0,
                 "{} chunks of {} bytes", shape.chunks, shape.chunk_bytes);
  Result<Memory> chunks = pinned.allocate(shape.bytes());
  PENSTOCK_TRY(chunks);
  Result<std::unique_ptr<CopyStream>> in = CopyStream::open(device);
  PENSTOCK_TRY(in);
  Result<std::unique_ptr<CopyStream>> out = CopyStream::open(device);
  PENSTOCK_TRY(out);
  auto lane = direct ? std::make_unique<DirectLane>(std::move(direct)) : nullptr;
  return std::unique_ptr<DeviceStaging>(new DeviceStaging(
      queue, shape, std::move(*chunks), std::move(*in), std::move(*out), std::move(lane)));
}

DeviceStaging::DeviceStaging(IoQueue& queue, const Shape& shape, Memory memory,
                             std::unique_ptr<CopyStream> in, std::unique_ptr<CopyStream> out,
                             std::unique_ptr<DirectLane> direct)
    : queue_(queue),
      chunk_bytes_(shape.chunk_bytes),
      memory_(std::move(memory)),
      chunks_(shape.chunks),
      in_(std::move(in)),
      out_(std::move(out)),
      direct_(std::move(direct)) {
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunks_[index].staging = this;
    chunks_[index].memory = memory_.span().subspan(index * chunk_bytes_, chunk_bytes_);
  }
}

DeviceStaging::~DeviceStaging() {
  Lock lock(mutex_);
  over_.wait(lock, [this] { return transfers_.empty() && telling_ == 0; });
}

// --- Asking -------------------------------------------------------------------------------------

void DeviceStaging::begin(DeviceTransfer::Direction direction, Request request, OnComplete done) {
  Result<void> possible = check_device_tensor(request.info, request.device);
  const std::optional<StreamId> stream = request.device.stream;
  auto transfer = std::make_shared<Transfer>(direction, std::move(request), std::move(done));
  if (possible.has_value() && stream) {
    possible = (transfer->to_device() ? in_ : out_)->follow(*stream);
  }
  if (possible.has_error()) {
    transfer->fail(std::move(possible).error());
    transfer->tell();
    return;
  }
  if (transfer->needs_no_chunk()) {
    copy_whole(transfer);
    return;
  }
  const bool is_direct = direct_ && transfer->direct_bytes() > 0;
  if (is_direct) {
    transfer->leave_out_direct_bytes();
    transfer->next_offset = transfer->direct_bytes();
    transfer->users = 1;
  }
  Lock lock(mutex_);
  transfers_.push_back(transfer);
  move_on(lock);
  if (is_direct) {
    move_directly(transfer);  // last: with it done, all may be
  }
}

// Its whole blocks; the rest, with the identity, takes the way of all others. The library knows no
// streams: what the transfer has to follow has happened before it begins.
void DeviceStaging::move_directly(const std::shared_ptr<Transfer>& transfer) {
  const auto begin = [this, transfer](std::optional<Error> error) {
    if (error) {
      moved_without_chunk(transfer, std::move(error));
      return;
    }
    const DeviceTransfer::OnDrive& drive = *transfer->drive();
    direct_->move(transfer->direction(), *drive.file, drive.stored.extent.offset,
                  transfer->device().memory.part(0, transfer->direct_bytes()),
                  [this, transfer](std::optional<Error> failure) {
                    moved_without_chunk(transfer, std::move(failure));
                  });
  };
  (transfer->to_device() ? in_ : out_)->mark(begin);
}

void DeviceStaging::copy_whole(const std::shared_ptr<Transfer>& transfer) {
  {
    const Lock lock(mutex_);
    transfers_.push_back(transfer);
    transfer->next_offset = transfer->layout_bytes();
    transfer->users = 1;
  }
  const auto copied = [this, transfer](std::optional<Error> error) {
    moved_without_chunk(transfer, std::move(error));
  };
  const std::span<std::byte> memory = transfer->memory_part(0, transfer->layout_bytes());
  if (transfer->to_device()) {
    in_->copy_in(transfer->device().memory, memory, copied);
  } else {
    out_->copy_out(memory, transfer->device().memory, copied);
  }
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
    return !transfer->error() && transfer->next_offset < transfer->layout_bytes();
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
      std::min(transfer.step_bytes(chunk_bytes_), transfer.layout_bytes() - transfer.next_offset);
  free->has_arrived = false;
  transfer.next_offset += free->bytes;
  ++transfer.users;
  return &*free;
}

// Whoever asks must not copy memory, which takes as long as it takes; the copies' thread does.
void DeviceStaging::start(Chunk& chunk) {
  if (!chunk.transfer->to_device()) {
    receive(chunk);
  } else if (chunk.transfer->drive() != nullptr) {
    submit(chunk);
  } else if (in_->on_thread()) {
    load(chunk);
  } else {
    in_->run([this, &chunk] { load(chunk); });
  }
}

// --- The drive's side ---------------------------------------------------------------------------

void DeviceStaging::submit(Chunk& chunk) {
  const DeviceTransfer::OnDrive& drive = *chunk.transfer->drive();
  const bool reads = chunk.transfer->to_device();
  chunk.op.kind = reads ? IoKind::kRead : IoKind::kWrite;
  chunk.op.priority = reads ? IoPriority::kDemand : IoPriority::kBehind;
  chunk.op.file = drive.file;
  chunk.op.data = chunk.memory.data();
  chunk.op.offset = drive.stored.extent.offset + chunk.offset;
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
  const Transfer& transfer = *chunk.transfer;
  std::optional<Error> error;
  if (chunk.op.error != 0) {
    error = said({chunk.op.error, std::generic_category()}, [&] {
      return drive_error(chunk.op, transfer.tensor_name(), transfer.drive()->stored.bytes());
    });
  }
  if (transfer.to_device()) {
    arrived(chunk, std::move(error));
  } else {
    give_back(chunk, std::move(error));
  }
}

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
    transfer.see(chunk->memory.first(chunk->bytes));
    if (transfer.to_device()) {
      send(*chunk);
    } else {
      submit(*chunk);
    }
  }
}

DeviceStaging::Chunk* DeviceStaging::next_in_order(const Transfer& transfer, bool& failed) {
  const Lock lock(mutex_);
  failed = transfer.error().has_value();
  const auto found = std::ranges::find_if(chunks_, [&](const Chunk& chunk) {
    return chunk.transfer.get() == &transfer && chunk.has_arrived &&
           (failed || chunk.offset == transfer.seen_bytes());
  });
  if (found == chunks_.end()) {
    return nullptr;
  }
  found->has_arrived = false;
  return &*found;
}

// --- The device's side --------------------------------------------------------------------------

void DeviceStaging::load(Chunk& chunk) {
  chunk.transfer->load(chunk.memory, chunk.offset, chunk.content_bytes());
  copy_in(chunk);
}

// On the I/O thread, which has better things to do than to convert.
void DeviceStaging::send(Chunk& chunk) {
  if (!chunk.transfer->converts()) {
    copy_in(chunk);
    return;
  }
  in_->run([this, &chunk] {
    chunk.transfer->convert_for_device(chunk.memory, chunk.content_bytes());
    copy_in(chunk);
  });
}

void DeviceStaging::copy_in(Chunk& chunk) {
  in_->copy_in(chunk.device_side(), chunk.copied(), [this, &chunk](std::optional<Error> error) {
    give_back(chunk, of_device(*chunk.transfer, std::move(error)));
  });
}

void DeviceStaging::receive(Chunk& chunk) {
  out_->copy_out(chunk.copied(), chunk.device_side(), [this, &chunk](std::optional<Error> error) {
    received(chunk, of_device(*chunk.transfer, std::move(error)));
  });
}

void DeviceStaging::received(Chunk& chunk, std::optional<Error> error) {
  const Transfer& transfer = *chunk.transfer;
  if (transfer.drive() == nullptr) {
    if (!error) {
      transfer.store(chunk.memory, chunk.offset, chunk.content_bytes());
    }
    give_back(chunk, std::move(error));
    return;
  }
  if (!error) {
    transfer.convert_from_device(chunk.memory, chunk.content_bytes());
  }
  arrived(chunk, std::move(error));
}

// --- The end ------------------------------------------------------------------------------------

void DeviceStaging::give_back(Chunk& chunk, std::optional<Error> error) {
  Lock lock(mutex_);
  const std::shared_ptr<Transfer> transfer = std::exchange(chunk.transfer, nullptr);
  if (error) {
    transfer->fail(std::move(*error));
  }
  let_go(transfer, lock);
}

void DeviceStaging::moved_without_chunk(const std::shared_ptr<Transfer>& transfer,
                                        std::optional<Error> error) {
  Lock lock(mutex_);
  if (error) {
    transfer->fail(*of_device(*transfer, std::move(error)));
  }
  let_go(transfer, lock);
}

void DeviceStaging::let_go(const std::shared_ptr<Transfer>& transfer, Lock& lock) {
  const bool is_over = --transfer->users == 0 &&
                       (transfer->error() || transfer->next_offset == transfer->layout_bytes());
  if (!is_over) {
    move_on(lock);
    return;
  }
  std::erase(transfers_, transfer);
  ++telling_;
  move_on(lock);
  transfer->tell();
  lock.lock();
  --telling_;
  over_.notify_all();  // with the lock held: afterwards this may be gone
}

}  // namespace penstock
