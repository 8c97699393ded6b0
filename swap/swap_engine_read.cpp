// How contents come from drives: on demand, and into the caller's memory.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "alloc/bytes.h"
#include "swap/swap_engine_core.h"

namespace penstock {

using Presence = TensorRecord::Presence;

Ticket SwapEngineCore::get(TensorId tensor, Access access) {
  auto state = std::make_shared<TicketState>(stalls_);
  if (const Result<void> planned = plan_before_use(tensor); planned.has_error()) {
    return Ticket::failed(planned.error());
  }
  Locked locked(mutex_, *this);
  TensorRecord* const record = record_of(tensor);
  if (record == nullptr || closed_) {
    return Ticket::failed(unknown(tensor));
  }
  ++stats_.gets;
  note_use(tensor);
  serve(*record, {state, access}, locked);
  locked.run_ahead();
  return Ticket(std::move(state));
}

void SwapEngineCore::note_use(TensorId tensor) noexcept {
  if_memory_allows([&] { stats_.predicted += scheduler_.record(to_number(tensor)) ? 1U : 0U; });
}

/// Gives the content at once, or lines the get up behind what must happen first.
void SwapEngineCore::serve(TensorRecord& record, WaitingGet get, Locked& locked) noexcept {
  const std::shared_ptr<TicketState> ticket = get.ticket;
  try {
    serve_or_line_up(record, std::move(get), locked);
  } catch (const std::bad_alloc&) {  // it was neither served nor lined up
    locked.fulfil(ticket, out_of_memory());
  }
}

void SwapEngineCore::serve_or_line_up(TensorRecord& record, WaitingGet get, Locked& locked) {
  if (get.access == Access::kUpdate && record.updates > 0) {
    locked.fulfil(std::move(get.ticket), being_changed(record));
    return;
  }
  if (record.presence == Presence::kCurrent) {
    serve_current(record, std::move(get), locked);
    return;
  }
  if (record.presence == Presence::kFilling) {
    ++stats_.late;
    ahead_.end(to_number(record.id));
    update_use(record);
    record.waiting_for_read.push_back(std::move(get));
    if (record.reading) {
      record.reading->promote();
    }
    return;
  }
  if (record.writes_in_flight > 0) {  // put() from the caller's memory: read it once it is there
    record.waiting_for_write.push_back(std::move(get));
    return;
  }
  if (!record.stored) {
    locked.fulfil(
        std::move(get.ticket),
        fault(Fault::kInvalidArgument,
              fmt::format("tensor '{}' has no content yet: put it first", record.info.name)));
    return;
  }
  const SwapStore& store = *namespaces_.at(record.space).store;
  if (Result<void> there = store.check_readable(*record.stored, record.info.name);
      there.has_error()) {
    locked.fulfil(std::move(get.ticket), std::move(there).error());
    return;
  }
  locked.expect_fill();
  record.waiting_for_read.push_back(std::move(get));
  ++stats_.misses;
  record.presence = Presence::kFilling;
  locked.fill({record.id, ++record.fill});
  operation_begun();
}

/// Of what is in memory.
void SwapEngineCore::serve_current(TensorRecord& record, WaitingGet get, Locked& locked) {
  // Whoever changes the content must not change the source of a write in flight.
  if (get.access == Access::kUpdate && record.writes_in_flight > 0) {
    record.waiting_for_write.push_back(std::move(get));
    return;
  }
  ahead_.end(to_number(record.id));
  if (record.block->updates > 0) {  // in place, and no drive has what was there before
    locked.fulfil(std::move(get.ticket), being_changed(record));
    return;
  }
  if (get.access == Access::kUpdate) {
    lend_to_update(record, std::move(get), locked);
    return;
  }
  Lease lease = lend(record, Lent::kToRead);
  ++(residency_.holds(to_number(record.id)) ? stats_.resident_hits : stats_.hits);
  locked.fulfil(std::move(get.ticket), std::nullopt, std::move(lease));
  note_memory_peak();
}

Error SwapEngineCore::being_changed(const TensorRecord& record) {
  Error error = fault(
      Fault::kInvalidArgument,
      fmt::format("tensor '{}' is being changed: commit or release the lease that was given for "
                  "its update first",
                  record.info.name));
  error.tensor = record.info.name;
  return error;
}

/// Whoever waits to read gets a lease. Those who wait to change it are given back.
std::vector<WaitingGet> SwapEngineCore::lend_to_readers(TensorRecord& record,
                                                        Locked& locked) noexcept {
  std::vector<WaitingGet> waiting = std::exchange(record.waiting_for_read, {});
  const auto served = [&](WaitingGet& get) {
    if (get.access == Access::kUpdate) {
      return false;
    }
    Result<Lease> lease =
        unless_out_of_memory([&]() -> Result<Lease> { return lend(record, Lent::kToRead); });
    if (lease.has_value()) {
      locked.fulfil(std::move(get.ticket), std::nullopt, std::move(*lease));
    } else {
      locked.fulfil(std::move(get.ticket), std::move(lease).error());
    }
    return true;
  };
  std::erase_if(waiting, served);
  return waiting;
}

/// Nobody else sees what its holder does with it: what others look at is copied first, and what a
/// drive has is not the tensor's memory any more. Only a resident that is on no drive is lent as it
/// is, and to nobody else meanwhile.
void SwapEngineCore::lend_to_update(TensorRecord& record, WaitingGet get, Locked& locked) {
  const bool is_shared = record.block->leases > 0 || record.block->copies > 0;
  if (is_shared || (!record.clean() && !changes_in_place(record))) {
    lend_copy(record, std::move(get), locked);
    return;
  }
  Lease lease = lend(record, Lent::kToUpdate);
  ++(residency_.holds(to_number(record.id)) ? stats_.resident_hits : stats_.hits);
  if (record.clean()) {
    drop_memory(record, locked);
  }
  locked.fulfil(std::move(get.ticket), std::nullopt, std::move(lease));
  note_memory_peak();
}

/// Residents are renewed in place, as memory always is, even by who leaves in the middle; but what
/// a durable store has yet to write must be whole until then, and what is copied until it is.
bool SwapEngineCore::changes_in_place(const TensorRecord& record) const {
  return residency_.holds(to_number(record.id)) && record.block->copies == 0 &&
         (record.clean() || !namespaces_.at(record.space).store->is_durable());
}

/// Others look at this content, or no drive took it: a copy goes to the get that will change it.
void SwapEngineCore::lend_copy(TensorRecord& record, WaitingGet get, Locked& locked) {
  locked.copy({record.id, record.memory_generation, record.block, std::move(get)});
  ++record.block->copies;  // so that it is not changed meanwhile
  operation_begun();
}

void SwapEngineCore::copy(CopyRequest request) noexcept {
  Result<std::shared_ptr<Block>> copied =
      unless_out_of_memory([&] { return resident_copy(request.source->span()); });
  Locked locked(mutex_, *this);
  operation_ended();
  --request.source->copies;
  TensorRecord* const record = record_of(request.tensor);
  const bool is_current = record != nullptr && record->presence == Presence::kCurrent &&
                          record->block == request.source &&
                          record->memory_generation == request.generation && record->updates == 0;
  locked.drop(std::move(request.source));  // maybe the last hold
  WaitingGet& get = request.get;
  if (is_current) {
    hand_out_copy(*record, std::move(get), std::move(copied), locked);
    return;
  }
  if (copied.has_value()) {
    locked.drop(std::move(copied).value());
  }
  if (record != nullptr) {
    serve(*record, std::move(get), locked);  // what has come meanwhile
  } else {
    locked.fulfil(std::move(get.ticket), said(make_error_code(Fault::kUnknownTensor),
                                              [&] { return unknown(request.tensor); }));
  }
}

void SwapEngineCore::hand_out_copy(TensorRecord& record, WaitingGet get,
                                   Result<std::shared_ptr<Block>> copied, Locked& locked) noexcept {
  Result<Lease> lease = unless_out_of_memory([&]() -> Result<Lease> {
    PENSTOCK_TRY(copied);
    return lend(*copied, record, Lent::kToUpdate);
  });
  if (lease.has_value()) {
    ++(residency_.holds(to_number(record.id)) ? stats_.resident_hits : stats_.hits);
    locked.fulfil(std::move(get.ticket), std::nullopt, std::move(*lease));
    return;
  }
  Error error = said(lease.error().code, [&] {
    Error why = lease.error();
    why.message = fmt::format("no memory to copy tensor '{}' ({}) for who changes it: {}",
                              record.info.name, format_bytes(record.bytes), why.message);
    why.tensor = record.info.name;
    return why;
  });
  locked.fulfil(std::move(get.ticket), std::move(error));
}

void SwapEngineCore::fill(const FillRequest& request) noexcept {
  if (request.is_ahead) {
    fill_ahead(request);
  } else {
    fill_on_demand(request);
  }
}

/// The record, where it is still the read of `request` that it waits for.
TensorRecord* SwapEngineCore::wanted(const FillRequest& request) const {
  TensorRecord* const record = record_of(request.tensor);
  const bool is_filling =
      record != nullptr && record->presence == Presence::kFilling && record->fill == request.fill;
  return is_filling ? record : nullptr;
}

/// Finds memory for the content and begins to read it on demand. The content may have come from
/// elsewhere, or the tensor may be gone, when memory is found.
void SwapEngineCore::fill_on_demand(const FillRequest& request) noexcept {
  Result<std::shared_ptr<Block>> block = unless_out_of_memory([&] {
    Result<std::shared_ptr<Block>> found = obtain_block(request.tensor);
    if (found.has_value()) {
      provide_pages(**found);
    }
    return found;
  });
  Locked locked(mutex_, *this);
  TensorRecord* const record = wanted(request);
  if (record != nullptr && block.has_value()) {
    record->block = std::move(block).value();
    const Result<void> started =
        unless_out_of_memory([&] { return start_read(*record, IoPriority::kDemand); });
    if (started.has_value()) {
      return;  // the operation ends with the read
    }
    drop_memory(*record, locked);
    fail_reads(*record, started.error(), locked);
  } else if (record != nullptr) {
    drop_memory(*record, locked);
    fail_reads(*record, no_memory_to_read(*record, block.error()), locked);
  } else if (block.has_value()) {
    locked.drop(std::move(block).value());
  }
  operation_ended();
}

Error SwapEngineCore::no_memory_to_read(const TensorRecord& record, const Error& cause) {
  return said(cause.code, [&] {
    Error error = cause;
    error.message = fmt::format("no memory to read tensor '{}' ({}) into: {}", record.info.name,
                                format_bytes(record.bytes), error.message);
    error.tensor = record.info.name;
    return error;
  });
}

StoreTransfer::Place SwapEngineCore::place_of(const SwapStore& store, const StoredTensor& stored,
                                              const std::string& tensor_name) const {
  return {queue_.get(),        pool_.get(), trailer_source_.get(),
          &store.file(stored), stored,      tensor_name};
}

/// Reads `stored` into `block`; the operation has been counted already. Errors, and where it
/// throws: nothing has begun.
Result<void> SwapEngineCore::start_read(TensorRecord& record, IoPriority priority) {
  const std::shared_ptr<SwapStore>& store = namespaces_.at(record.space).store;
  Result<std::shared_ptr<StoreTransfer>> transfer = StoreTransfer::of_read(
      place_of(*store, *record.stored, record.info.name), record.block->span(), priority);
  if (transfer.has_error()) {
    return std::move(transfer).error();
  }
  record.reading = std::move(transfer).value();
  record.reads_ahead = priority == IoPriority::kAhead;
  // The transfer, the memory, the extent and the store live until the last completion has been
  // seen.
  record.reading->start([core = shared_from_this(), keep = record.reading, block = record.block,
                         extent = record.stored, store, tensor = record.id,
                         fill = record.fill](std::optional<Error> error) {
    core->read_finished(tensor, fill, block, std::move(error));
  });
  stats_.tensor_read_bytes += record.bytes;
  return {};
}

void SwapEngineCore::read_finished(TensorId tensor, std::uint64_t fill,
                                   const std::shared_ptr<Block>& block,
                                   std::optional<Error> error) noexcept {
  Locked locked(mutex_, *this);
  TensorRecord* const record = wanted({tensor, fill});
  if (record != nullptr && record->block == block) {
    if (error && reads_again(*record)) {
      return;
    }
    if (error) {
      drop_memory(*record, locked);
      fail_reads(*record, *error, locked);
    } else {
      record->reading.reset();
      record->presence = Presence::kCurrent;
      record->memory_generation = record->stored_generation;
      std::vector<WaitingGet> updates = lend_to_readers(*record, locked);
      note_memory_peak();
      serve_again(tensor, std::move(updates), locked);
    }
  }
  operation_ended();
  locked.run_ahead();
}

/// A read ahead is a hint. Where it fails, a get that has joined it since is answered by a read of
/// its own, since whatever was wrong may be over.
bool SwapEngineCore::reads_again(TensorRecord& record) noexcept {
  return record.reads_ahead && !record.waiting_for_read.empty() &&
         unless_out_of_memory([&] { return start_read(record, IoPriority::kDemand); }).has_value();
}

void SwapEngineCore::fail_reads(TensorRecord& record, const Error& error, Locked& locked) noexcept {
  for (WaitingGet& waiting : std::exchange(record.waiting_for_read, {})) {
    locked.fulfil(std::move(waiting.ticket), copy_of(error));
  }
}

Ticket SwapEngineCore::get_into(TensorId tensor, std::span<std::byte> target) {
  auto state = std::make_shared<TicketState>(stalls_);
  HeldExtent extent;
  std::shared_ptr<SwapStore> store;
  StoreTransfer::Place place;
  {
    const std::lock_guard lock(mutex_);
    TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return Ticket::failed(unknown(tensor));
    }
    if (target.size() != record->bytes) {
      return Ticket::failed(
          fault(Fault::kWrongSize, fmt::format("tensor '{}' has {} bytes, the target {}",
                                               record->info.name, record->bytes, target.size())));
    }
    store = namespaces_.at(record->space).store;
    if (record->presence != Presence::kCurrent && record->writes_in_flight == 0 && record->stored &&
        store->check_readable(*record->stored, record->info.name).has_value()) {
      extent = record->stored;
      place = place_of(*store, *extent, record->info.name);
      operation_begun();
    }
  }
  if (!extent) {
    return get_into_by_copy(tensor, target);  // or says why there is nothing to copy
  }
  Result<std::shared_ptr<StoreTransfer>> made = unless_out_of_memory(
      [&] { return StoreTransfer::of_read(std::move(place), target, IoPriority::kDemand); });
  if (made.has_value()) {
    const auto done = [core = shared_from_this(), keep = *made, extent, store,
                       state](std::optional<Error> error) {
      state->fulfil(std::move(error), {});
      const std::lock_guard finished(core->mutex_);
      core->operation_ended();
    };
    made = unless_out_of_memory([&]() -> Result<std::shared_ptr<StoreTransfer>> {
      const std::shared_ptr<StoreTransfer> transfer = *made;
      transfer->start(done);
      return transfer;
    });
  }
  const std::lock_guard lock(mutex_);
  if (made.has_error()) {
    operation_ended();
    return Ticket::failed(std::move(made).error());
  }
  ++stats_.gets;
  ++stats_.misses;
  stats_.tensor_read_bytes += target.size();
  return Ticket(std::move(state));
}

/// The content is in memory or on its way there: copies it from a lease.
Ticket SwapEngineCore::get_into_by_copy(TensorId tensor, std::span<std::byte> target) {
  auto state = std::make_shared<TicketState>(stalls_);
  get(tensor, Access::kRead).then([state, target](const Ticket& done) {
    Result<Lease> lease = unless_out_of_memory([&done] { return done.lease(); });
    if (lease.has_error()) {
      state->fulfil(std::move(lease).error(), {});
      return;
    }
    std::memcpy(target.data(), lease.value().data(), target.size());
    state->fulfil(std::nullopt, {});
  });
  return Ticket(std::move(state));
}

}  // namespace penstock
