// How contents come from drives: on demand, into the caller's memory, and ahead of their use.

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
    if (scheduler_.record(to_number(tensor))) {
      ++stats_.predicted;
    }
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

/// Gives the content at once, or lines the get up behind what must happen first. `record` may be
/// gone when this returns.
void SwapEngineCore::serve(TensorRecord& record, WaitingGet get, Lock& lock, Outbox& outbox) {
  const bool resident = residency_.holds(to_number(record.id));
  if (record.presence == Presence::kCurrent) {
    // Whoever changes the content must not change the source of a write in flight.
    if (get.access == Access::kUpdate && record.writes_in_flight > 0) {
      record.waiting_for_write.push_back(std::move(get));
      return;
    }
    ++(resident ? stats_.resident_hits : stats_.hits);
    ahead_.end(to_number(record.id));
    if (get.access == Access::kUpdate && !record.clean() && !changes_in_place(record)) {
      lend_copy(record, std::move(get), outbox);
      return;
    }
    outbox.fulfil(std::move(get.ticket), std::nullopt, lend(record, get.access));
    note_memory_peak();
    return;
  }
  if (record.presence == Presence::kFilling) {
    ++stats_.late;
    ahead_.end(to_number(record.id));
    update_use(record);
    if (record.reading) {
      record.reading->promote();
    }
    record.waiting_for_read.push_back(std::move(get));
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
  ++stats_.misses;
  record.waiting_for_read.push_back(std::move(get));
  fill(record.id, lock, outbox);
}

/// Residents are renewed in place, as memory always is, even by who leaves in the middle; but what
/// a durable store has yet to write must be whole until then.
bool SwapEngineCore::changes_in_place(const TensorRecord& record) const {
  return residency_.holds(to_number(record.id)) &&
         (record.clean() || !namespaces_.at(record.space).store->is_durable());
}

/// No drive took this content: whoever will change it, and may leave in the middle, gets a copy.
void SwapEngineCore::lend_copy(TensorRecord& record, WaitingGet get, Outbox& outbox) {
  Result<std::shared_ptr<Block>> copy = resident_block(record.bytes);
  if (copy.has_error()) {
    outbox.fulfil(std::move(get.ticket), std::move(copy).error());
    return;
  }
  std::memcpy(copy.value()->data(), record.block->data(), record.bytes);
  outbox.fulfil(std::move(get.ticket), std::nullopt,
                lend(std::move(copy).value(), record, get.access));
}

/// Finds memory for the content and begins to read it on demand. Lets go of the lock meanwhile, so
/// the content may have come from elsewhere, or the tensor may be gone, when memory is found.
void SwapEngineCore::fill(TensorId tensor, Lock& lock, Outbox& outbox) {
  TensorRecord* record = record_of(tensor);
  record->presence = Presence::kFilling;
  const std::uint64_t fill = ++record->fill;
  operation_begun();
  Result<std::shared_ptr<Block>> block = obtain_block(tensor, lock, outbox);
  if (block.has_value()) {
    provide_pages(*block.value(), lock);
  }
  record = record_of(tensor);
  const bool wanted =
      record != nullptr && record->presence == Presence::kFilling && record->fill == fill;
  if (wanted && block.has_value()) {
    record->block = std::move(block).value();
    start_read(*record, IoPriority::kDemand);
    return;
  }
  if (wanted) {
    Error error = std::move(block).error();
    error.message = fmt::format("no memory to read tensor '{}' ({}) into: {}", record->info.name,
                                format_bytes(record->bytes), error.message);
    error.tensor = record->info.name;
    drop_memory(*record, outbox);
    fail_reads(*record, error, outbox);
  } else if (block.has_value()) {
    outbox.drop(std::move(block).value());
  }
  operation_ended();
}

/// Reads `stored` into `block`; the operation has been counted already.
void SwapEngineCore::start_read(TensorRecord& record, IoPriority priority) {
  const std::shared_ptr<SwapStore>& store = namespaces_.at(record.space).store;
  StoreTransfer::Place place{queue_.get(), pool_.get(), &store->file(*record.stored),
                             *record.stored, record.info.name};
  record.reading = std::make_shared<StoreTransfer>(std::move(place));
  stats_.tensor_read_bytes += record.bytes;
  // The transfer, the memory, the extent and the store live until the last completion has been
  // seen.
  record.reading->start_read(record.block->span(), priority,
                             [core = shared_from_this(), keep = record.reading,
                              block = record.block, extent = record.stored, store,
                              tensor = record.id, fill = record.fill](std::optional<Error> error) {
                               core->read_finished(tensor, fill, block, std::move(error));
                             });
}

void SwapEngineCore::read_finished(TensorId tensor, std::uint64_t fill,
                                   const std::shared_ptr<Block>& block,
                                   std::optional<Error> error) {
  {
    Outbox outbox;
    Lock lock(mutex_);
    TensorRecord* record = record_of(tensor);
    if (record != nullptr && record->fill == fill && record->presence == Presence::kFilling &&
        record->block == block) {
      if (error) {
        drop_memory(*record, outbox);
        fail_reads(*record, *error, outbox);
      } else {
        record->reading.reset();
        record->presence = Presence::kCurrent;
        record->memory_generation = record->stored_generation;
        for (WaitingGet& waiting : std::exchange(record->waiting_for_read, {})) {
          outbox.fulfil(std::move(waiting.ticket), std::nullopt, lend(*record, waiting.access));
        }
        note_memory_peak();
      }
    }
    operation_ended();
  }
  run_ahead();
}

void SwapEngineCore::fail_reads(TensorRecord& record, const Error& error, Outbox& outbox) {
  for (WaitingGet& waiting : std::exchange(record.waiting_for_read, {})) {
    outbox.fulfil(std::move(waiting.ticket), error);
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
  ++stats_.gets;
  ++stats_.misses;
  stats_.tensor_read_bytes += record->bytes;
  operation_begun();
  auto state = std::make_shared<TicketState>(stalls_);
  auto transfer = std::make_shared<StoreTransfer>(
      StoreTransfer::Place{queue_.get(), pool_.get(), &store->file(*record->stored),
                           *record->stored, record->info.name});
  transfer->start_read(target, IoPriority::kDemand,
                       [core = shared_from_this(), keep = transfer, extent = record->stored, store,
                        state](std::optional<Error> error) {
                         state->fulfil(std::move(error), {});
                         Lock finished(core->mutex_);
                         core->operation_ended();
                       });
  return Ticket(std::move(state));
}

/// The content is in memory or on its way there: copies it from a lease.
Ticket SwapEngineCore::get_into_by_copy(TensorId tensor, std::span<std::byte> target) {
  auto state = std::make_shared<TicketState>(stalls_);
  get(tensor, Access::kRead).then([state, target](const Ticket& done) {
    Result<Lease> lease = done.lease();
    if (lease.has_error()) {
      state->fulfil(std::move(lease).error(), {});
      return;
    }
    std::memcpy(target.data(), lease.value().data(), target.size());
    state->fulfil(std::nullopt, {});
  });
  return Ticket(std::move(state));
}

void SwapEngineCore::prefetch(std::span<const TensorId> tensors) {
  {
    Lock lock(mutex_);
    for (const TensorId tensor : tensors) {
      scheduler_.announce(to_number(tensor));
    }
  }
  run_ahead();
}

/// What the scheduler sees of the engine. Lives while the lock is held.
class SwapEngineCore::Surroundings final : public PrefetchSurroundings {
 public:
  explicit Surroundings(SwapEngineCore& core) : core_(core) {}

  Answer begin_ahead(AccessTrace::Key key, bool large_waits) override {
    TensorRecord* record = core_.record_of(TensorId{key});
    if (record == nullptr || record->presence != Presence::kAbsent ||
        record->writes_in_flight > 0 || !record->stored) {
      return Answer::kNothingToDo;
    }
    const SwapStore& store = *core_.namespaces_.at(record->space).store;
    if (store.check_readable(*record->stored, record->info.name).has_error()) {
      return Answer::kNothingToDo;
    }
    const std::optional<std::uint64_t> limit = core_.options_.lookahead_bytes;
    if (limit && core_.ahead_.bytes() + record->bytes > *limit) {
      return Answer::kStop;
    }
    std::shared_ptr<Block> block = find_memory(*record, large_waits);
    if (!block) {
      return Answer::kNoRoom;
    }
    record->presence = Presence::kFilling;
    ++record->fill;
    record->block = std::move(block);
    core_.ahead_.begin(key, record->bytes);
    core_.update_use(*record);
    core_.operation_begun();
    core_.start_read(*record, IoPriority::kAhead);
    return Answer::kBegun;
  }

 private:
  std::shared_ptr<Block> find_memory(TensorRecord& record, bool large_waits) {
    const bool stays =
        record.place == Place::kRam &&
        core_.residency_.claim(to_number(record.id), record.bytes,
                               record.ruled ? Residency::Claim::kRule : Residency::Claim::kPlan);
    if (stays) {
      Result<std::shared_ptr<Block>> block = core_.resident_block(record.bytes);
      return block.has_value() ? std::move(block).value() : nullptr;
    }
    if (std::optional<Buffer> slot = core_.pool_->try_acquire_slot(record.bytes)) {
      return std::make_shared<Block>(std::move(*slot), record.bytes);
    }
    // Only pages that are there already: this may be the I/O thread, which fresh ones would hold
    // up.
    if (large_waits || core_.kept_room_bytes() < record.bytes ||
        !core_.overflow_source_->retains(record.bytes)) {
      return nullptr;
    }
    Result<Buffer> pageable = core_.pool_->acquire_overflow(record.bytes);
    return pageable.has_value() ? std::make_shared<Block>(std::move(pageable).value(), record.bytes)
                                : nullptr;
  }

  SwapEngineCore& core_;
};

/// Begins what is worth reading now; called without the lock after everything that may have made
/// room or told more of the future.
void SwapEngineCore::run_ahead() {
  Lock lock(mutex_);
  if (closed_ || !planned_) {
    return;
  }
  Surroundings surroundings(*this);
  scheduler_.run(surroundings);
  overflow_source_->set_retained_limit_bytes(kept_room_bytes());
}

}  // namespace penstock
