#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "alloc/result.h"
#include "io/file.h"
#include "swap/store/checksum.h"
#include "swap/store/device_tensor.h"
#include "swap/store/stored_tensor.h"

namespace penstock {

/// One tensor on its way between the memory of a device and a drive, or host memory: where which
/// part of it belongs, its conversion, its proof, its end. DeviceStaging moves the bytes. Not
/// thread-safe, except that what is seen in order (see()) and the rest are two threads' affairs.
///
/// Offsets are of the layout on the host's side: StoredTensor's on a drive, the content alone in
/// memory.
class DeviceTransfer {
 public:
  enum class Direction : std::uint8_t { kToDevice, kFromDevice };

  struct OnDrive {
    const File* file = nullptr;  ///< lives until completion
    StoredTensor stored;         ///< what is written needs no checksum: it is computed on the way
  };
  struct InMemory {
    std::span<std::byte> content;  ///< lives until completion; only read on its way to a device
    bool is_pinned = false;        ///< for that device, so that it needs no chunk
  };
  struct Request {
    std::variant<OnDrive, InMemory> host;
    TensorInfo info;  ///< what is to be moved
    DeviceTensor device;
  };
  /// The checksum of what a drive has (0 for memory), or why nothing came. Must not wait for a
  /// transfer, must not throw.
  using OnComplete = std::function<void(Result<std::uint64_t>)>;

  DeviceTransfer(Direction direction, Request request, OnComplete done);

  Direction direction() const noexcept { return direction_; }
  bool to_device() const noexcept { return direction_ == Direction::kToDevice; }
  /// Null: the host's side is memory.
  const OnDrive* drive() const noexcept { return std::get_if<OnDrive>(&request_.host); }
  const DeviceTensor& device() const noexcept { return request_.device; }
  const std::string& tensor_name() const noexcept { return request_.info.name; }
  bool converts() const noexcept { return dtype() != device_dtype(); }
  /// Memory that the device reaches by itself, as it is: one copy does.
  bool needs_no_chunk() const noexcept;

  /// Of a drive's content, the whole blocks that may go past host memory: none where they have to
  /// be hashed or converted here.
  std::uint64_t direct_bytes() const noexcept;
  /// They go that way: what is seen begins behind them. Before anything else was seen.
  void leave_out_direct_bytes() noexcept { seen_bytes_ = direct_bytes(); }

  std::uint64_t layout_bytes() const noexcept;
  /// How much of the layout a chunk holds: less where its elements grow on the way.
  std::uint64_t step_bytes(std::uint64_t chunk_bytes) const noexcept;
  /// Of so much of the layout from `offset` on, the content's part: it is the first.
  std::uint64_t content_bytes(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  /// Where so much of the content lies on the device.
  DeviceSpan device_part(std::uint64_t offset, std::uint64_t content_bytes) const noexcept;
  /// Where it lies in host memory.
  std::span<std::byte> memory_part(std::uint64_t offset,
                                   std::uint64_t content_bytes) const noexcept;

  /// A chunk's content, read into it as the tensor is, becomes what the device wants; and back.
  void convert_for_device(std::span<std::byte> chunk, std::uint64_t content_bytes) const;
  void convert_from_device(std::span<std::byte> chunk, std::uint64_t content_bytes) const;
  /// The same between host memory and a chunk.
  void load(std::span<std::byte> chunk, std::uint64_t offset, std::uint64_t content_bytes) const;
  void store(std::span<const std::byte> chunk, std::uint64_t offset,
             std::uint64_t content_bytes) const;

  /// The layout up to which everything was seen.
  std::uint64_t seen_bytes() const noexcept { return seen_bytes_; }
  /// The next part of what a drive has or gets, in order: counted into the checksum, with the
  /// identity at its end proved or made.
  void see(std::span<std::byte> part);

  const std::optional<Error>& error() const noexcept { return error_; }
  /// The first one counts.
  void fail(Error error);
  /// Once, when nothing of it is under way any more.
  void tell();

 private:
  DType dtype() const noexcept { return request_.info.dtype; }
  DType device_dtype() const noexcept { return request_.device.dtype.value_or(dtype()); }
  std::uint64_t bytes() const noexcept;
  void see_identity(std::span<std::byte> identity);
  Result<std::uint64_t> outcome() const;

  const Direction direction_;
  const Request request_;
  const OnComplete done_;
  ChecksumStream checksum_;
  std::uint64_t checksum_seen_ = 0;
  std::uint64_t seen_bytes_ = 0;
  std::string difference_;  // of what a drive gave back
  std::optional<Error> error_;
};

}  // namespace penstock
