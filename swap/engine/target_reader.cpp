#include "swap/engine/target_reader.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "swap/engine/completion_error.h"
#include "swap/engine/planner.h"

namespace penstock {

Ticket TargetReader::get_into(TensorId tensor, std::span<std::byte> target) {
  auto state = std::make_shared<TicketState>(context_.stalls);
  HeldExtent extent;
  std::shared_ptr<SwapStore> store;
  HostTransfer::Place place;
  {
    const BriefLock lock(context_);
    TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return Ticket::failed(table_.unknown(tensor));
    }
    if (target.size() != record->bytes()) {
      return Ticket::failed(fault(Fault::kWrongSize,
                                  fmt::format("tensor '{}' has {} bytes, the target {}",
                                              record->info->name, record->bytes(), target.size())));
    }
    store = table_.store_of(*record);
    if (record->memory.is_as_on_drive() && record->drive.writes_in_flight == 0 &&
        record->drive.stored &&
        store->check_readable(*record->drive.stored, record->info->name).has_value()) {
      extent = record->drive.stored;
      place = reader_.place_of(*store, *extent, record->info);
      context_.operation_begun();
    }
  }
  if (!extent) {
    return get_into_by_copy(tensor, target);  // or says why there is nothing to copy
  }
  const Result<void> begun = unless_out_of_memory([&]() -> Result<void> {
    const Result<std::shared_ptr<HostTransfer>> transfer = HostTransfer::of_read(
        std::move(place), target, IoPriority::kDemand,
        [this, engine = context_.hold(), extent, store, state](Result<std::uint64_t> read) mutable {
          end(*state, error_of(std::move(read)), {.from_drive = std::move(extent)});
        });
    PENSTOCK_TRY(transfer);
    HostTransfer::start(*transfer);
    return {};
  });
  const BriefLock lock(context_);
  if (begun.has_error()) {
    context_.operation_ended();
    return Ticket::failed(begun.error());
  }
  ++context_.stats.gets;
  ++context_.stats.misses;
  return Ticket(std::move(state));
}

/// The content is in memory or on its way there: copies it from a lease.
Ticket TargetReader::get_into_by_copy(TensorId tensor, std::span<std::byte> target) {
  auto state = std::make_shared<TicketState>(context_.stalls);
  reader_.get(tensor, Access::kRead)
      .then([this, engine = context_.hold(), state, target](const Ticket& done) {
        Result<Lease> lease = unless_out_of_memory([&done] { return done.lease(); });
        if (lease.has_error()) {
          state->fulfil(std::move(lease).error(), {});
        } else if (begin_copy(*state)) {
          std::memcpy(target.data(), lease.value().data(), target.size());
          lease.value().release();
          end(*state, std::nullopt, {});
        }
      });
  return Ticket(std::move(state));
}

/// A copy is an operation of its own: close() waits until the caller's memory is left alone. False:
/// the engine is closed, and the ticket says so.
bool TargetReader::begin_copy(TicketState& state) {
  bool is_open = false;
  {
    const BriefLock lock(context_);
    is_open = !context_.closed;
    if (is_open) {
      context_.operation_begun();
    }
  }
  if (!is_open) {
    state.fulfil(said(make_error_code(Fault::kClosed), [this] { return context_.not_open(); }), {});
  }
  return is_open;
}

Result<StreamId> TargetReader::device_stream(const Device& device,
                                             DeviceDirection direction) const {
  const BriefLock lock(context_);
  if (context_.closed) {
    return context_.not_open();
  }
  const Result<DeviceStaging*> staging = devices_.of({.device = &device});
  PENSTOCK_TRY(staging);
  return (*staging)->stream(direction);
}

Ticket TargetReader::get_to_device(TensorId tensor, const DeviceTensor& target) {
  auto state = std::make_shared<TicketState>(context_.stalls);
  if (const Result<void> planned = planner_.plan_before_use(tensor); planned.has_error()) {
    return Ticket::failed(planned.error());
  }
  std::shared_ptr<const TensorInfo> info;
  std::optional<DeviceRead> read;
  {
    const BriefLock lock(context_);
    const TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return Ticket::failed(table_.unknown(tensor));
    }
    if (const auto staging = devices_.check(*record, target); staging.has_error()) {
      return Ticket::failed(staging.error());
    }
    if (is_read_from_drive(*record)) {
      read = device_read(*record, target);
      ++context_.stats.gets;
      ++context_.stats.misses;
      reader_.note_use(tensor);
    } else {
      info = record->info;
    }
  }
  if (!read) {
    return get_to_device_by_lease(tensor, std::move(info), target);
  }
  begin(std::move(*read), state);
  context_.worker->run_ahead();
  return Ticket(std::move(state));
}

/// Whether its content lies on a drive alone, and is not to be kept in RAM.
bool TargetReader::is_read_from_drive(const TensorRecord& record) const {
  const SwapStore& store = *table_.store_of(record);
  return record.memory.is_absent() && record.drive.writes_in_flight == 0 && record.drive.stored &&
         record.place != Place::kRam &&
         store.check_readable(*record.drive.stored, record.info->name).has_value();
}

/// From the drive. It counts as an operation from here on.
TargetReader::DeviceRead TargetReader::device_read(const TensorRecord& record,
                                                   const DeviceTensor& target) {
  const std::shared_ptr<SwapStore>& store = table_.store_of(record);
  DeviceRead read{
      {record.info, OnDrive{&store->file(*record.drive.stored), *record.drive.stored}, target},
      record.drive.stored,
      store};
  context_.operation_begun();
  return read;
}

/// Where it throws, nothing has begun.
void TargetReader::begin(DeviceRead read, std::shared_ptr<TicketState> state) {
  try {
    const DeviceTensor target = std::get<DeviceTensor>(read.request.target);
    const std::uint64_t bytes = target.memory.bytes;
    (*devices_.of(target))
        ->move(std::move(read.request),
               [this, engine = context_.hold(), extent = std::move(read.extent),
                store = std::move(read.store), bytes,
                state = std::move(state)](Result<std::uint64_t> done) mutable {
                 end(*state, error_of(std::move(done)),
                     {.from_drive = std::move(extent), .to_device = bytes});
               });
  } catch (const std::bad_alloc&) {
    const BriefLock lock(context_);
    context_.operation_ended();
    throw;
  }
}

/// The content is in memory, or on its way there; the lease ends with the copy.
Ticket TargetReader::get_to_device_by_lease(TensorId tensor, std::shared_ptr<const TensorInfo> info,
                                            const DeviceTensor& target) {
  auto state = std::make_shared<TicketState>(context_.stalls);
  reader_.get(tensor, Access::kRead)
      .then([this, engine = context_.hold(), info, target, state](const Ticket& done) {
        const Result<void> begun = unless_out_of_memory([&]() -> Result<void> {
          const Result<Lease> lease = done.lease();
          PENSTOCK_TRY(lease);
          copy_to_device(*lease, info, target, state);
          return {};
        });
        if (begun.has_error()) {
          state->fulfil(copy_of(begun.error()), {});
        }
      });
  return Ticket(std::move(state));
}

/// Where it throws, nothing has begun.
void TargetReader::copy_to_device(const Lease& lease, std::shared_ptr<const TensorInfo> info,
                                  const DeviceTensor& target,
                                  const std::shared_ptr<TicketState>& state) {
  if (!begin_copy(*state)) {
    return;
  }
  try {
    // What is in a slot is pinned for every device.
    const bool is_pinned = !lease.token()->block()->may_stay();
    const auto done = [this, engine = context_.hold(), held = lease, state,
                       bytes = target.memory.bytes](Result<std::uint64_t> copied) mutable {
      held.release();
      end(*state, error_of(std::move(copied)), {.to_device = bytes});
    };
    (*devices_.of(target))
        ->move({std::move(info), InMemory{lease.span(), is_pinned}, target}, done);
  } catch (const std::bad_alloc&) {
    const BriefLock lock(context_);
    context_.operation_ended();
    throw;
  }
}

/// Bytes are counted, and space and memory have come back, before the ticket ends: a caller that
/// waits for it may ask for them.
void TargetReader::end(TicketState& state, std::optional<Error> error, Moved moved) {
  if (!error) {
    const BriefLock lock(context_);
    context_.stats.tensor_read_bytes += moved.from_drive ? moved.from_drive->bytes() : 0;
    context_.stats.to_device_bytes += moved.to_device;
  }
  moved.from_drive.reset();
  state.fulfil(std::move(error), {});
  const BriefLock lock(context_);
  context_.operation_ended();
}

}  // namespace penstock
