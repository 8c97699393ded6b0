#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "io/file.h"
#include "io/io_op.h"
#include "swap/plan/inventory.h"
#include "swap/transfer/chunk.h"
#include "swap/transfer/device_tensor.h"
#include "swap/transfer/stored_tensor.h"

namespace penstock {

/// One end of a transfer: an extent of a drive.
struct OnDrive {
  const File* file = nullptr;  ///< lives until the end
  StoredTensor stored;         ///< of what is written, all but the checksum
  IoPriority priority = IoPriority::kDemand;
};
/// One end of a transfer: host memory.
struct InMemory {
  std::span<std::byte> content;  ///< lives until the end; a source is only read
  bool is_pinned = false;        ///< for the device that is the other end
};
using TransferEnd = std::variant<OnDrive, InMemory, DeviceTensor>;

/// What is to be moved from where to where, and which part of it a chunk carries at which end. A
/// chunk's offset and bytes are of the layout on the host's side: StoredTensor's on a drive, the
/// content alone in memory. Of a device's end the type may be another. Pure.
struct TransferRequest {
  std::shared_ptr<const TensorInfo> info;
  TransferEnd source;
  TransferEnd target;

  const std::string& tensor_name() const noexcept { return info->name; }
  const OnDrive* drive() const noexcept;        ///< null: neither end is one
  const InMemory* memory() const noexcept;      ///< null: neither end is any
  const DeviceTensor* device() const noexcept;  ///< null: neither end is on one
  bool from_drive() const noexcept { return std::holds_alternative<OnDrive>(source); }
  bool from_memory() const noexcept { return std::holds_alternative<InMemory>(source); }
  bool to_device() const noexcept { return std::holds_alternative<DeviceTensor>(target); }

  DType dtype() const noexcept { return info->dtype; }
  DType device_dtype() const noexcept;  ///< dtype() where no end is on a device
  bool converts() const noexcept { return dtype() != device_dtype(); }

  std::uint64_t layout_bytes() const noexcept;
  /// How much of the layout a chunk of so many bytes holds: less where elements grow on the way.
  std::uint64_t part_bytes(std::uint64_t chunk_bytes) const noexcept;
  /// The content's share of a chunk, which is its first.
  std::uint64_t content_bytes(const Chunk& chunk) const noexcept;
  std::uint64_t elements(const Chunk& chunk) const noexcept;
  /// Where that lies in host memory, and on the device.
  std::span<std::byte> memory_part(const Chunk& chunk) const noexcept;
  DeviceSpan device_part(const Chunk& chunk) const noexcept;
};

}  // namespace penstock
