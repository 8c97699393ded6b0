#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "swap/engine/declarations.h"
#include "swap/engine/device_stagings.h"
#include "swap/engine/engine_part.h"
#include "swap/engine/memory_broker.h"
#include "swap/engine/reader.h"
#include "swap/engine/write_queue.h"
#include "swap/engine/write_rescue.h"
#include "swap/ticket.h"

namespace penstock {

/// How tensors get new contents: kept as resident, or written behind reads. See SwapEngine.
/// Thread-safe.
class Committer : private EnginePart {
 public:
  Committer(EngineState& state, MemoryBroker& broker, Reader& reader, WriteQueue& writes,
            Declarations& declarations, WriteRescue& rescue, const DeviceStagings& devices)
      : EnginePart(state),
        broker_(broker),
        reader_(reader),
        writes_(writes),
        declarations_(declarations),
        rescue_(rescue),
        devices_(devices) {}

  Result<Lease> allocate(TensorId tensor);
  /// `since`: where a newer content than this generation has come, that stays.
  Ticket commit(const Lease& lease, std::optional<std::uint64_t> since = std::nullopt);
  Ticket put(TensorId tensor, std::span<const std::byte> source);
  Ticket put_from_device(TensorId tensor, const DeviceTensor& source);
  /// Copies a content from its device, as WriteQueue::begin_arrival() has counted.
  void receive(const WritingPtr& arrival) noexcept;

 private:
  template <class Put>
  Ticket or_undeclared(TensorId tensor, Put put);
  Ticket put_content(TensorId tensor, std::span<const std::byte> source);
  void put_behind(TensorRecord& record, WritingPtr writing, std::span<const std::byte> source,
                  Locked& locked) PENSTOCK_NEEDS_LOCK;
  Lease lend_in_place(TensorRecord& record) PENSTOCK_NEEDS_LOCK;
  Result<Lease> resident_room(TensorId tensor, std::span<const std::byte> source, Lease in_place);
  static bool has_newer(const TensorRecord& record, std::uint64_t since) PENSTOCK_NEEDS_LOCK;
  void take(TensorRecord& record, LeaseToken& token, WritingPtr writing, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
  void settle(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
  Ticket put_device_content(TensorId tensor, const DeviceTensor& source);
  std::shared_ptr<Block> arrival_block(TensorId tensor, bool stays, std::uint64_t bytes);
  void arrived(const WritingPtr& arrival, std::optional<Error> error) noexcept;
  void fail_arrival(TensorRecord* newest, Writing& arrival, Error error, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;

  MemoryBroker& broker_;
  Reader& reader_;
  WriteQueue& writes_;
  Declarations& declarations_;
  WriteRescue& rescue_;
  const DeviceStagings& devices_;
};

}  // namespace penstock
