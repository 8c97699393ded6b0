#include "swap/transfer/device_staging.h"

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {
namespace {

// Of a drive's content, the whole blocks that may go past host memory: none where they have to be
// hashed or converted here.
std::uint64_t direct_bytes(const TensorTransfer& transfer) noexcept {
  const OnDrive* const drive = transfer.request().drive();
  if (drive == nullptr || transfer.request().converts() || !drive->file->direct().supported) {
    return 0;
  }
  const auto level = static_cast<IntegrityLevel>(drive->stored.identity.level);
  return level == IntegrityLevel::kOff ? drive->stored.body_bytes() : 0;
}

}  // namespace

Result<std::unique_ptr<DeviceStaging>> DeviceStaging::open(IoQueue& queue,
                                                           const std::shared_ptr<Device>& device,
                                                           MemorySource& pinned,
                                                           const ChunkShape& shape,
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

DeviceStaging::DeviceStaging(IoQueue& queue, const ChunkShape& shape, Memory memory,
                             std::unique_ptr<CopyStream> in, std::unique_ptr<CopyStream> out,
                             std::unique_ptr<DirectLane> direct)
    : queue_(queue),
      memory_(std::move(memory)),
      chunks_(shape.chunks),
      in_(std::move(in)),
      out_(std::move(out)),
      direct_(std::move(direct)) {
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunks_[index].memory = memory_.span().subspan(index * shape.chunk_bytes, shape.chunk_bytes);
  }
  pump_.emplace(chunks_);
}

void DeviceStaging::begin(std::shared_ptr<Moved> transfer) {
  const DeviceTensor& device = *transfer->request().device();
  Result<void> possible = check_device_tensor(*transfer->request().info, device);
  if (possible.has_value() && device.stream) {
    possible = transfer->stream().follow(*device.stream);
  }
  if (possible.has_error()) {
    Error error = std::move(possible).error();
    error.tensor = transfer->request().tensor_name();
    transfer->refuse(std::move(error));
    return;
  }
  transfer->staging = this;
  const InMemory* const memory = transfer->request().memory();
  if (memory != nullptr && memory->is_pinned && !transfer->request().converts()) {
    copy_whole(std::move(transfer));  // the device reaches it by itself, as it is
  } else if (direct_ && direct_bytes(*transfer) > 0) {
    move_directly(transfer);
  } else {
    pump_->move(std::move(transfer));
  }
}

void DeviceStaging::copy_whole(std::shared_ptr<Moved> transfer) {
  Moved& moved = *transfer;
  moved.self = transfer;
  moved.copy.context = &moved;
  moved.copy.on_complete = [](CopyOp& copied) noexcept {
    moved_without_chunk(*static_cast<Moved*>(copied.context), std::move(copied.error));
  };
  pump_->move(std::move(transfer), moved.request().layout_bytes(), 1);
  if (moved.request().to_device()) {
    in_->copy_in(moved.copy, moved.request().device()->memory, moved.request().memory()->content);
  } else {
    out_->copy_out(moved.copy, moved.request().memory()->content, moved.request().device()->memory);
  }
}

/// Its whole blocks; the rest, with the identity, takes the way of all others. The library knows no
/// streams: what the transfer has to follow has happened before it begins.
void DeviceStaging::move_directly(const std::shared_ptr<Moved>& transfer) {
  transfer->self = transfer;
  transfer->copy.context = transfer.get();
  transfer->copy.on_complete = begin_directly;
  pump_->move(transfer, direct_bytes(*transfer), 1);
  transfer->stream().mark(transfer->copy);
}

void DeviceStaging::begin_directly(CopyOp& marked) noexcept {
  Moved& moved = *static_cast<Moved*>(marked.context);
  if (marked.error) {
    moved_without_chunk(moved, std::move(marked.error));
    return;
  }
  const OnDrive& drive = *moved.request().drive();
  DirectOp& op = moved.direct;
  op.direction =
      moved.request().to_device() ? DeviceDirection::kToDevice : DeviceDirection::kFromDevice;
  op.file = drive.file;
  op.offset = drive.stored.extent.offset;
  op.memory = moved.request().device()->memory.part(0, direct_bytes(moved));
  op.context = &moved;
  op.on_complete = [](DirectOp& done) noexcept {
    moved_without_chunk(*static_cast<Moved*>(done.context), std::move(done.error));
  };
  moved.staging->direct_->move(op);
}

void DeviceStaging::moved_without_chunk(Moved& transfer, std::optional<Error> error) noexcept {
  ChunkPump& pump = *transfer.staging->pump_;
  std::optional<Error> named = transfer.device_error(std::move(error));
  pump.let_go(std::move(transfer.self), std::move(named));
}

}  // namespace penstock
