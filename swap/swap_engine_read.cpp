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
  {
    Outbox outbox;
    Lock lock(mutex_);
    const Result<TensorRecord*> record = planned_record(tensor, lock, outbox);
    if (record.has_error()) {
      return Ticket::failed(record.error());
    }
    ++stats_.gets;
    note_use(tensor);
    serve(**record, {state, access}, lock, outbox);
  }
  run_ahead();
  return Ticket(std::move(state));
}

/// Of a tensor that somebody wants: the first one makes the plan.
Result<TensorRecord*> SwapEngineCore::planned_record(TensorId tensor, Lock& lock, Outbox& outbox) {
  if (!planned_ && !closed_ && record_of(tensor) != nullptr) {
    PENSTOCK_TRY(plan_locked(lock, outbox));
  }
  TensorRecord* const record = record_of(tensor);
  if (record == nullptr || closed_) {
    return unknown(tensor);
  }
  return record;
}

void SwapEngineCore::note_use(TensorId tensor) noexcept {
  if_memory_allows([&] { stats_.predicted += scheduler_.record(to_number(tensor)) ? 1U : 0U; });
}

/// Gives the content at once, or lines the get up behind what must happen first. `record` may be
/// gone when this returns.
void SwapEngineCore::serve(TensorRecord& record, WaitingGet get, Lock& lock,
                           Outbox& outbox) noexcept {
  const std::shared_ptr<TicketState> ticket = get.ticket;
  try {
    serve_or_line_up(record, std::move(get), lock, outbox);
  } catch (const std::bad_alloc&) {  // it was neither served nor lined up
    outbox.fulfil(ticket, out_of_memory());
  }
}

void SwapEngineCore::serve_or_line_up(TensorRecord& record, WaitingGet get, Lock& lock,
                                      Outbox& outbox) {
  if (get.access == Access::kUpdate && record.updates > 0) {
    outbox.fulfil(std::move(get.ticket), being_changed(record));
    return;
  }
  if (record.presence == Presence::kCurrent) {
    serve_current(record, std::move(get), lock, outbox);
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
    outbox.fulfil(
        std::move(get.ticket),
        fault(Fault::kInvalidArgument,
              fmt::format("tensor '{}' has no content yet: put it first", record.info.name)));
    return;
  }
  const SwapStore& store = *namespaces_.at(record.space).store;
  if (Result<void> there = store.check_readable(*record.stored, record.info.name);
      there.has_error()) {
    outbox.fulfil(std::move(get.ticket), std::move(there).error());
    return;
  }
  record.waiting_for_read.push_back(std::move(get));
  ++stats_.misses;
  fill(record.id, lock, outbox);
}

/// Of what is in memory.
void SwapEngineCore::serve_current(TensorRecord& record, WaitingGet get, Lock& lock,
                                   Outbox& outbox) {
  // Whoever changes the content must not change the source of a write in flight.
  if (get.access == Access::kUpdate && record.writes_in_flight > 0) {
    record.waiting_for_write.push_back(std::move(get));
    return;
  }
  ahead_.end(to_number(record.id));
  if (record.block->updates > 0) {  // in place, and no drive has what was there before
    outbox.fulfil(std::move(get.ticket), being_changed(record));
    return;
  }
  if (get.access == Access::kUpdate) {
    lend_to_update(record, std::move(get), lock, outbox);
    return;
  }
  Lease lease = lend(record, Lent::kToRead);
  ++(residency_.holds(to_number(record.id)) ? stats_.resident_hits : stats_.hits);
  outbox.fulfil(std::move(get.ticket), std::nullopt, std::move(lease));
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
                                                        Outbox& outbox) noexcept {
  std::vector<WaitingGet> waiting = std::exchange(record.waiting_for_read, {});
  const auto served = [&](WaitingGet& get) {
    if (get.access == Access::kUpdate) {
      return false;
    }
    Result<Lease> lease =
        unless_out_of_memory([&]() -> Result<Lease> { return lend(record, Lent::kToRead); });
    if (lease.has_value()) {
      outbox.fulfil(std::move(get.ticket), std::nullopt, std::move(*lease));
    } else {
      outbox.fulfil(std::move(get.ticket), std::move(lease).error());
    }
    return true;
  };
  std::erase_if(waiting, served);
  return waiting;
}

/// Nobody else sees what its holder does with it: what others look at is copied first, and what a
/// drive has is not the tensor's memory any more. Only a resident that is on no drive is lent as it
/// is, and to nobody else meanwhile. Lets go of the lock; `record` may be gone when this returns.
void SwapEngineCore::lend_to_update(TensorRecord& record, WaitingGet get, Lock& lock,
                                    Outbox& outbox) {
  const bool is_shared = record.block->leases > 0 || record.block->copies > 0;
  if (is_shared || (!record.clean() && !changes_in_place(record))) {
    lend_copy(record, std::move(get), lock, outbox);
    return;
  }
  Lease lease = lend(record, Lent::kToUpdate);
  ++(residency_.holds(to_number(record.id)) ? stats_.resident_hits : stats_.hits);
  if (record.clean()) {
    drop_memory(record, outbox);
  }
  outbox.fulfil(std::move(get.ticket), std::nullopt, std::move(lease));
  note_memory_peak();
}

/// Residents are renewed in place, as memory always is, even by who leaves in the middle; but what
/// a durable store has yet to write must be whole until then, and what is copied until it is.
bool SwapEngineCore::changes_in_place(const TensorRecord& record) const {
  return residency_.holds(to_number(record.id)) && record.block->copies == 0 &&
         (record.clean() || !namespaces_.at(record.space).store->is_durable());
}

/// Others look at this content, or no drive took it: whoever will change it, and may leave in the
/// middle, gets a copy. Lets go of the lock; `record` may be gone when this returns.
void SwapEngineCore::lend_copy(TensorRecord& record, WaitingGet get, Lock& lock, Outbox& outbox) {
  const TensorId tensor = record.id;
  const std::uint64_t generation = record.memory_generation;
  const std::shared_ptr<Block> source = record.block;
  ++source->copies;  // so that it is not changed meanwhile
  operation_begun();
  Result<std::shared_ptr<Block>> copy =
      unless_out_of_memory([&] { return resident_copy(source->span(), lock); });
  operation_ended();
  --source->copies;
  outbox.drop(source);  // maybe the last hold
  TensorRecord* const still = record_of(tensor);
  const bool is_current = still != nullptr && still->presence == Presence::kCurrent &&
                          still->block == source && still->memory_generation == generation &&
                          still->updates == 0;
  if (is_current && copy.has_value()) {
    Lease lease = lend(*copy, *still, Lent::kToUpdate);
    ++(residency_.holds(to_number(tensor)) ? stats_.resident_hits : stats_.hits);
    outbox.fulfil(std::move(get.ticket), std::nullopt, std::move(lease));
    return;
  }
  if (is_current) {
    Error error = std::move(copy).error();
    error.message = fmt::format("no memory to copy tensor '{}' ({}) for who changes it: {}",
                                still->info.name, format_bytes(still->bytes), error.message);
    error.tensor = still->info.name;
    outbox.fulfil(std::move(get.ticket), std::move(error));
    return;
  }
  if (copy.has_value()) {
    outbox.drop(std::move(copy).value());
  }
  if (still != nullptr) {
    serve(*still, std::move(get), lock, outbox);  // what has come meanwhile
  } else {
    outbox.fulfil(std::move(get.ticket), unknown(tensor));
  }
}

/// Finds memory for the content and begins to read it on demand. Lets go of the lock meanwhile, so
/// the content may have come from elsewhere, or the tensor may be gone, when memory is found.
void SwapEngineCore::fill(TensorId tensor, Lock& lock, Outbox& outbox) noexcept {
  TensorRecord* record = record_of(tensor);
  record->presence = Presence::kFilling;
  const std::uint64_t fill = ++record->fill;
  Operation operation(*this);
  Result<std::shared_ptr<Block>> block = unless_out_of_memory([&] {
    Result<std::shared_ptr<Block>> found = obtain_block(tensor, lock, outbox);
    if (found.has_value()) {
      provide_pages(**found, lock);
    }
    return found;
  });
  record = record_of(tensor);
  const bool wanted =
      record != nullptr && record->presence == Presence::kFilling && record->fill == fill;
  if (wanted && block.has_value()) {
    record->block = std::move(block).value();
    const Result<void> started =
        unless_out_of_memory([&] { return start_read(*record, IoPriority::kDemand); });
    if (started.has_value()) {
      operation.hand_over();
      return;
    }
    drop_memory(*record, outbox);
    fail_reads(*record, started.error(), outbox);
  } else if (wanted) {
    drop_memory(*record, outbox);
    fail_reads(*record,
               said(block.error().code,
                    [&] {
                      Error error = block.error();
                      error.message = fmt::format("no memory to read tensor '{}' ({}) into: {}",
                                                  record->info.name, format_bytes(record->bytes),
                                                  error.message);
                      error.tensor = record->info.name;
                      return error;
                    }),
               outbox);
  } else if (block.has_value()) {
    outbox.drop(std::move(block).value());
  }
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
  {
    Outbox outbox;
    Lock lock(mutex_);
    TensorRecord* record = record_of(tensor);
    if (record != nullptr && record->fill == fill && record->presence == Presence::kFilling &&
        record->block == block) {
      if (error && reads_again(*record)) {
        return;
      }
      if (error) {
        drop_memory(*record, outbox);
        fail_reads(*record, *error, outbox);
      } else {
        record->reading.reset();
        record->presence = Presence::kCurrent;
        record->memory_generation = record->stored_generation;
        std::vector<WaitingGet> updates = lend_to_readers(*record, outbox);
        note_memory_peak();
        serve_again(tensor, std::move(updates), lock, outbox);
      }
    }
    operation_ended();
  }
  run_ahead();
}

/// A read ahead is a hint. Where it fails, a get that has joined it since is answered by a read of
/// its own, since whatever was wrong may be over.
bool SwapEngineCore::reads_again(TensorRecord& record) noexcept {
  return record.reads_ahead && !record.waiting_for_read.empty() &&
         unless_out_of_memory([&] { return start_read(record, IoPriority::kDemand); }).has_value();
}

void SwapEngineCore::fail_reads(TensorRecord& record, const Error& error, Outbox& outbox) noexcept {
  for (WaitingGet& waiting : std::exchange(record.waiting_for_read, {})) {
    outbox.fulfil(std::move(waiting.ticket), copy_of(error));
  }
}

Ticket SwapEngineCore::get_into(TensorId tensor, std::span<std::byte> target) {
  Lock lock(mutex_);
  TensorRecord* record = record_of(tensor);
  if (record == nullptr || closed_) {
    return Ticket::failed(unknown(tensor));
  }
  if (target.size() != record->bytes) {
    return Ticket::failed(
        fault(Fault::kWrongSize, fmt::format("tensor '{}' has {} bytes, the target {}",
                                             record->info.name, record->bytes, target.size())));
  }
  const std::shared_ptr<SwapStore> store = namespaces_.at(record->space).store;
  if (record->presence == Presence::kCurrent || record->writes_in_flight > 0 || !record->stored ||
      store->check_readable(*record->stored, record->info.name).has_error()) {
    lock.unlock();
    return get_into_by_copy(tensor, target);  // or says why there is nothing to copy
  }
  Operation operation(*this);
  const HeldExtent extent = record->stored;
  const StoreTransfer::Place place = place_of(*store, *extent, record->info.name);
  auto state = std::make_shared<TicketState>(stalls_);
  {
    const Unlocked open(lock);
    Result<std::shared_ptr<StoreTransfer>> made =
        StoreTransfer::of_read(place, target, IoPriority::kDemand);
    if (made.has_error()) {
      return Ticket::failed(std::move(made).error());
    }
    const std::shared_ptr<StoreTransfer> transfer = std::move(made).value();
    transfer->start([core = shared_from_this(), keep = transfer, extent, store,
                     state](std::optional<Error> error) {
      state->fulfil(std::move(error), {});
      Lock finished(core->mutex_);
      core->operation_ended();
    });
  }
  operation.hand_over();
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
