#include "swap/transfer/transfer_request.h"

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock {
namespace {

template <class End>
const End* end_of(const TransferRequest& request) noexcept {
  const auto* const source = std::get_if<End>(&request.source);
  return source != nullptr ? source : std::get_if<End>(&request.target);
}

}  // namespace

const OnDrive* TransferRequest::drive() const noexcept {
  return end_of<OnDrive>(*this);
}
const InMemory* TransferRequest::memory() const noexcept {
  return end_of<InMemory>(*this);
}
const DeviceTensor* TransferRequest::device() const noexcept {
  return end_of<DeviceTensor>(*this);
}

DType TransferRequest::device_dtype() const noexcept {
  return device() != nullptr ? device()->dtype.value_or(dtype()) : dtype();
}

std::uint64_t TransferRequest::layout_bytes() const noexcept {
  return drive() != nullptr ? drive()->stored.layout_bytes() : info->bytes();
}

std::uint64_t TransferRequest::part_bytes(std::uint64_t chunk_bytes) const noexcept {
  const std::uint64_t here = dtype_bytes(dtype());
  const std::uint64_t there = dtype_bytes(device_dtype());
  return here >= there ? chunk_bytes : align_down(chunk_bytes / there * here, kBlockBytes);
}

/// Behind the content there may be an identity alone.
std::uint64_t TransferRequest::content_bytes(const Chunk& chunk) const noexcept {
  const std::uint64_t bytes = info->bytes();
  return chunk.offset < bytes ? std::min(chunk.bytes, bytes - chunk.offset) : 0;
}

std::uint64_t TransferRequest::elements(const Chunk& chunk) const noexcept {
  return content_bytes(chunk) / dtype_bytes(dtype());
}

std::span<std::byte> TransferRequest::memory_part(const Chunk& chunk) const noexcept {
  const std::uint64_t bytes = content_bytes(chunk);
  return memory()->content.subspan(bytes == 0 ? 0 : chunk.offset, bytes);
}

DeviceSpan TransferRequest::device_part(const Chunk& chunk) const noexcept {
  const std::uint64_t there = dtype_bytes(device_dtype());
  const std::uint64_t before = chunk.offset / dtype_bytes(dtype());
  const std::uint64_t count = elements(chunk);
  return device()->memory.part(count == 0 ? 0 : before * there, count * there);
}

}  // namespace penstock
