#include "swap/transfer/tensor_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "alloc/out_of_memory.h"
#include "swap/transfer/chunk_pump.h"
#include "swap/transfer/dtype_conversion.h"
#include "swap/transfer/transfer_error.h"

namespace penstock {

TensorTransfer::TensorTransfer(const Ways& ways, TransferRequest request)
    : Transfer(request.layout_bytes()), ways_(ways), request_(std::move(request)) {
  if (const OnDrive* const drive = request_.drive()) {
    proof_.emplace(drive->stored.identity);
  }
}

std::uint64_t TensorTransfer::part_bytes(std::uint64_t chunk_bytes, std::uint64_t left) noexcept {
  return std::min(request_.part_bytes(chunk_bytes), left);
}

// --- Steps --------------------------------------------------------------------------------------

/// The caller must not copy memory for a device, which takes as long as it takes; the copies'
/// thread does.
void TensorTransfer::fetch(Chunk& chunk) noexcept {
  if (request_.from_drive()) {
    move_io(chunk, *request_.drive(), IoKind::kRead);
  } else if (!request_.from_memory()) {
    copy_out(chunk);
  } else if (!request_.to_device() || ways_.in->on_thread()) {
    load(chunk);
  } else {
    run_on_stream<&TensorTransfer::load>(chunk);
  }
}

std::optional<Error> TensorTransfer::pass(Chunk& chunk) noexcept {
  if (!proof_) {
    return std::nullopt;
  }
  const bool is_read = request_.from_drive();
  if (is_read && chunk.io.error != 0) {
    return io_error(chunk.io);
  }
  const std::span<std::byte> part = chunk.part();
  const std::uint64_t content = request_.content_bytes(chunk);
  proof_->update(part.first(content));
  if (!is_read) {
    std::ranges::fill(part.subspan(content), std::byte{});
  }
  if (chunk.offset + chunk.bytes < layout_bytes()) {
    return std::nullopt;
  }
  const std::span<std::byte> identity = part.last(IdentityBlock::kBytes);
  if (is_read) {
    return prove(identity);
  }
  checksum_ = proof_->seal(identity);
  return std::nullopt;
}

std::optional<Error> TensorTransfer::prove(std::span<const std::byte> identity) noexcept {
  const OnDrive& drive = *request_.drive();
  checksum_ = drive.stored.identity.checksum;
  try {
    const std::string difference = proof_->difference(identity);
    return difference.empty() ? std::nullopt
                              : std::optional(content_error(*drive.file, drive.stored,
                                                            request_.tensor_name(), difference));
  } catch (const std::bad_alloc&) {  // of the words for what is wrong
    Error error = out_of_memory();
    error.code = make_error_code(Fault::kCorrupt);
    return error;
  }
}

/// The I/O thread has better things to do than to convert.
void TensorTransfer::deliver(Chunk& chunk) noexcept {
  if (const auto* const drive = std::get_if<OnDrive>(&request_.target)) {
    move_io(chunk, *drive, IoKind::kWrite);
  } else if (!request_.to_device()) {
    store(chunk);
    chunk.pump->left(chunk);
  } else if (request_.from_drive() && request_.converts()) {
    run_on_stream<&TensorTransfer::convert_and_copy_in>(chunk);
  } else {
    copy_in(chunk);
  }
}

void TensorTransfer::over() noexcept {
  release_chunks();
  ended(error() ? Result<std::uint64_t>(copy_of(*error())) : Result<std::uint64_t>(checksum_));
}

// --- A drive's end ------------------------------------------------------------------------------

void TensorTransfer::move_io(Chunk& chunk, const OnDrive& drive, IoKind kind) noexcept {
  chunk.prepare_io(kind, drive.priority, *drive.file, drive.stored.extent.offset + chunk.offset,
                   chunk.bytes);
  chunk.io.on_complete = [](IoOp& done) noexcept {
    auto& moved = *static_cast<Chunk*>(done.context);
    if (done.kind == IoKind::kRead) {
      moved.pump->arrived(moved);  // pass() looks at the result
    } else {
      const auto& transfer = static_cast<const TensorTransfer&>(*moved.transfer);
      moved.pump->left(moved, transfer.io_error(done));
    }
  };
  ways_.queue->submit(chunk.io);
}

std::optional<Error> TensorTransfer::io_error(const IoOp& op) const noexcept {
  if (op.error == 0) {
    return std::nullopt;
  }
  return said({op.error, std::generic_category()}, [&] {
    return drive_error(op, request_.tensor_name(), request_.drive()->stored.bytes());
  });
}

// --- Host memory's end --------------------------------------------------------------------------

/// A chunk may be the memory itself.
void TensorTransfer::load(Chunk& chunk) noexcept {
  const std::span<std::byte> source = request_.memory_part(chunk);
  if (request_.converts()) {
    const std::uint64_t bytes = request_.device_part(chunk).bytes;
    convert(request_.dtype(), source, request_.device_dtype(), chunk.memory.first(bytes));
  } else if (!source.empty() && source.data() != chunk.memory.data()) {
    std::memcpy(chunk.memory.data(), source.data(), source.size());
  }
  chunk.pump->arrived(chunk);
}

void TensorTransfer::store(const Chunk& chunk) const noexcept {
  const std::span<std::byte> target = request_.memory_part(chunk);
  if (request_.converts()) {
    const std::uint64_t bytes = request_.device_part(chunk).bytes;
    convert(request_.device_dtype(), chunk.memory.first(bytes), request_.dtype(), target);
  } else if (!target.empty() && target.data() != chunk.memory.data()) {
    std::memcpy(target.data(), chunk.memory.data(), target.size());
  }
}

// --- A device's end -----------------------------------------------------------------------------

template <void (TensorTransfer::*Work)(Chunk&) noexcept>
void TensorTransfer::run_on_stream(Chunk& chunk) noexcept {
  chunk.copy.context = &chunk;
  chunk.copy.on_complete = [](CopyOp& turn) noexcept {
    auto& ready = *static_cast<Chunk*>(turn.context);
    (static_cast<TensorTransfer&>(*ready.transfer).*Work)(ready);
  };
  ways_.in->run(chunk.copy);
}

void TensorTransfer::convert_and_copy_in(Chunk& chunk) noexcept {
  convert_in_place(request_.dtype(), request_.device_dtype(), chunk.memory,
                   request_.elements(chunk));
  copy_in(chunk);
}

void TensorTransfer::copy_in(Chunk& chunk) noexcept {
  chunk.copy.context = &chunk;
  chunk.copy.on_complete = [](CopyOp& copied) noexcept {
    auto& left = *static_cast<Chunk*>(copied.context);
    const auto& transfer = static_cast<const TensorTransfer&>(*left.transfer);
    left.pump->left(left, transfer.device_error(std::move(copied.error)));
  };
  const DeviceSpan target = request_.device_part(chunk);
  ways_.in->copy_in(chunk.copy, target, chunk.memory.first(target.bytes));
}

void TensorTransfer::copy_out(Chunk& chunk) noexcept {
  chunk.copy.context = &chunk;
  chunk.copy.on_complete = [](CopyOp& copied) noexcept {
    auto& received = *static_cast<Chunk*>(copied.context);
    static_cast<TensorTransfer&>(*received.transfer).copied_out(received);
  };
  const DeviceSpan source = request_.device_part(chunk);
  ways_.out->copy_out(chunk.copy, chunk.memory.first(source.bytes), source);
}

/// A drive gets what the tensor is made of; memory's end converts as it stores.
void TensorTransfer::copied_out(Chunk& chunk) noexcept {
  if (chunk.copy.error) {
    chunk.pump->left(chunk, device_error(std::move(chunk.copy.error)));
    return;
  }
  if (request_.drive() != nullptr && request_.converts()) {
    convert_in_place(request_.device_dtype(), request_.dtype(), chunk.memory,
                     request_.elements(chunk));
  }
  chunk.pump->arrived(chunk);
}

std::optional<Error> TensorTransfer::device_error(std::optional<Error> error) const noexcept {
  if (error) {
    error = said(error->code, [&] {
      Error named = *error;
      named.message = fmt::format("tensor '{}': {}", request_.tensor_name(), named.message);
      named.tensor = request_.tensor_name();
      return named;
    });
  }
  return error;
}

}  // namespace penstock
