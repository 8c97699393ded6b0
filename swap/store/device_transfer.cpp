#include "swap/store/device_transfer.h"

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "swap/store/dtype_conversion.h"
#include "swap/store/transfer_error.h"

namespace penstock {
namespace {

ChecksumStream checksum_of(const DeviceTransfer::Request& request) {
  const auto* const drive = std::get_if<DeviceTransfer::OnDrive>(&request.host);
  if (drive == nullptr) {
    return {IntegrityLevel::kOff, 0};
  }
  return {static_cast<IntegrityLevel>(drive->stored.identity.level), drive->stored.bytes()};
}

}  // namespace

DeviceTransfer::DeviceTransfer(Direction direction, Request request, OnComplete done)
    : direction_(direction),
      request_(std::move(request)),
      done_(std::move(done)),
      checksum_(checksum_of(request_)) {}

bool DeviceTransfer::needs_no_chunk() const noexcept {
  const auto* const memory = std::get_if<InMemory>(&request_.host);
  return memory != nullptr && memory->is_pinned && !converts();
}

std::uint64_t DeviceTransfer::direct_bytes() const noexcept {
  const bool is_hashed = drive() == nullptr || drive()->stored.identity.level !=
                                                   static_cast<std::uint64_t>(IntegrityLevel::kOff);
  return is_hashed || converts() || !drive()->file->direct().supported
             ? 0
             : drive()->stored.body_bytes();
}

std::uint64_t DeviceTransfer::bytes() const noexcept {
  return request_.info.bytes();
}

std::uint64_t DeviceTransfer::layout_bytes() const noexcept {
  return drive() != nullptr ? drive()->stored.layout_bytes() : bytes();
}

std::uint64_t DeviceTransfer::step_bytes(std::uint64_t chunk_bytes) const noexcept {
  const std::uint64_t here = dtype_bytes(dtype());
  const std::uint64_t there = dtype_bytes(device_dtype());
  return here >= there ? chunk_bytes : align_down(chunk_bytes / there * here, kBlockBytes);
}

std::uint64_t DeviceTransfer::content_bytes(std::uint64_t offset,
                                            std::uint64_t bytes_there) const noexcept {
  return offset < bytes() ? std::min(bytes_there, bytes() - offset) : 0;
}

// Behind the content there may be an identity alone.
DeviceSpan DeviceTransfer::device_part(std::uint64_t offset,
                                       std::uint64_t content_bytes) const noexcept {
  const std::uint64_t here = dtype_bytes(dtype());
  const std::uint64_t there = dtype_bytes(device_dtype());
  return device().memory.part(content_bytes == 0 ? 0 : offset / here * there,
                              content_bytes / here * there);
}

std::span<std::byte> DeviceTransfer::memory_part(std::uint64_t offset,
                                                 std::uint64_t content_bytes) const noexcept {
  return std::get<InMemory>(request_.host).content.subspan(offset, content_bytes);
}

void DeviceTransfer::convert_for_device(std::span<std::byte> chunk,
                                        std::uint64_t content_bytes) const {
  convert_in_place(dtype(), device_dtype(), chunk, content_bytes / dtype_bytes(dtype()));
}

void DeviceTransfer::convert_from_device(std::span<std::byte> chunk,
                                         std::uint64_t content_bytes) const {
  convert_in_place(device_dtype(), dtype(), chunk, content_bytes / dtype_bytes(dtype()));
}

void DeviceTransfer::load(std::span<std::byte> chunk, std::uint64_t offset,
                          std::uint64_t content_bytes) const {
  convert(dtype(), memory_part(offset, content_bytes), device_dtype(),
          chunk.first(device_part(offset, content_bytes).bytes));
}

void DeviceTransfer::store(std::span<const std::byte> chunk, std::uint64_t offset,
                           std::uint64_t content_bytes) const {
  convert(device_dtype(), chunk.first(device_part(offset, content_bytes).bytes), dtype(),
          memory_part(offset, content_bytes));
}

// --- In order -----------------------------------------------------------------------------------

void DeviceTransfer::see(std::span<std::byte> part) {
  const std::uint64_t content = content_bytes(seen_bytes_, part.size());
  checksum_.update(part.first(content));
  seen_bytes_ += part.size();
  if (!to_device()) {
    std::ranges::fill(part.subspan(content), std::byte{});
  }
  if (seen_bytes_ == layout_bytes()) {
    checksum_seen_ = checksum_.finish();
    see_identity(part.last(IdentityBlock::kBytes));
  }
}

void DeviceTransfer::see_identity(std::span<std::byte> identity) {
  const IdentityBlock& expected = drive()->stored.identity;
  if (!to_device()) {
    IdentityBlock written = expected;
    written.checksum = checksum_seen_;
    written.encode(identity);
    return;
  }
  difference_ = expected.difference(identity);
  if (difference_.empty() && checksum_seen_ != expected.checksum) {
    difference_ = "bytes whose checksum is not that of what was written";
  }
}

// --- The end ------------------------------------------------------------------------------------

void DeviceTransfer::fail(Error error) {
  if (!error_) {
    error.tensor = tensor_name();
    error_ = std::move(error);
  }
}

void DeviceTransfer::tell() {
  done_(outcome());
}

Result<std::uint64_t> DeviceTransfer::outcome() const {
  if (error_) {
    return *error_;
  }
  if (!difference_.empty()) {
    return content_error(*drive()->file, drive()->stored, tensor_name(), difference_);
  }
  return checksum_seen_;
}

}  // namespace penstock
