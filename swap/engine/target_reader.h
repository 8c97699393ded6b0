#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "swap/engine/device_stagings.h"
#include "swap/engine/engine_part.h"
#include "swap/engine/reader.h"
#include "swap/ticket.h"

namespace penstock {

/// How contents come to memory that is not the engine's: the caller's, or a device's. From a drive
/// straight, from memory by a copy. Thread-safe.
class TargetReader : private EnginePart {
 public:
  TargetReader(EngineState& state, Reader& reader, Planner& planner, const DeviceStagings& devices)
      : EnginePart(state), reader_(reader), planner_(planner), devices_(devices) {}

  Ticket get_into(TensorId tensor, std::span<std::byte> target);
  Ticket get_to_device(TensorId tensor, const DeviceTensor& target);
  Result<StreamId> device_stream(const Device& device, DeviceDirection direction) const;

 private:
  struct DeviceRead {
    TransferRequest request;
    HeldExtent extent;
    std::shared_ptr<SwapStore> store;
  };
  /// What a tensor was read from, if from a drive; bytes for the counts.
  struct Moved {
    HeldExtent from_drive = nullptr;
    std::uint64_t to_device = 0;
  };
  Ticket get_into_by_copy(TensorId tensor, std::span<std::byte> target);
  bool is_read_from_drive(const TensorRecord& record) const PENSTOCK_NEEDS_LOCK;
  DeviceRead device_read(const TensorRecord& record, const DeviceTensor& target)
      PENSTOCK_NEEDS_LOCK;
  void begin(DeviceRead read, std::shared_ptr<TicketState> state);
  Ticket get_to_device_by_lease(TensorId tensor, std::shared_ptr<const TensorInfo> info,
                                const DeviceTensor& target);
  bool begin_copy(TicketState& state);
  void copy_to_device(const Lease& lease, std::shared_ptr<const TensorInfo> info,
                      const DeviceTensor& target, const std::shared_ptr<TicketState>& state);
  void end(TicketState& state, std::optional<Error> error, Moved moved);

  Reader& reader_;
  Planner& planner_;
  const DeviceStagings& devices_;
};

}  // namespace penstock
