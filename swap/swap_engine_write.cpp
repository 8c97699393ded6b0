// How contents go to drives: always beside the last good copy, published when whole.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/sabotage.h"
#include "swap/store/checksum.h"
#include "swap/swap_engine_core.h"

namespace penstock {

using Presence = TensorRecord::Presence;

Result<Lease> SwapEngineCore::allocate(TensorId tensor) {
  Outbox outbox;
  Lock lock(mutex_);
  TensorRecord* record = record_of(tensor);
  if (record == nullptr || closed_) {
    return unknown(tensor);
  }
  // A resident that still lies in a slot moves out.
  const bool in_place = record->presence == Presence::kCurrent && changes_in_place(*record) &&
                        record->block->may_stay() && record->block->leases == 0 &&
                        record->writes_in_flight == 0;
  if (in_place) {
    return lend(*record, Access::kUpdate);
  }
  operation_begun();
  Result<std::shared_ptr<Block>> block = obtain_block(tensor, lock, outbox);
  record = record_of(tensor);
  Result<Lease> lease = unknown(tensor);
  if (block.has_error()) {
    lease = std::move(block).error();
  } else if (record == nullptr) {
    outbox.drop(std::move(block).value());
  } else {
    lease = lend(std::move(block).value(), *record, Access::kUpdate);
  }
  operation_ended();
  return lease;
}

Ticket SwapEngineCore::commit(const Lease& lease) {
  if (!lease) {
    return Ticket::failed(fault(Fault::kInvalidArgument, "an empty lease cannot be committed"));
  }
  if (!lease.token()->is_of(weak_from_this())) {
    return Ticket::failed(fault(Fault::kInvalidArgument,
                                "a lease that another engine gave cannot be committed here"));
  }
  Outbox outbox;
  Lock lock(mutex_);
  TensorRecord* record = record_of(lease.tensor());
  if (record == nullptr || closed_) {
    return Ticket::failed(unknown(lease.tensor()));
  }
  const std::shared_ptr<Block>& block = lease.token()->block();
  ++stats_.commits;
  record->generation += sabotaged(Sabotage::kGenerationBump) ? 0U : 1U;
  scheduler_.record_rewrite(to_number(record->id));
  if (record->block != block) {
    drop_memory(*record, outbox);
    record->block = block;
  }
  auto state = std::make_shared<TicketState>(waiting_);
  settle_content(*record, state, lock, outbox);
  return Ticket(std::move(state));
}

/// `record.block` holds all of the newest content: kept as resident, or written behind reads.
/// `record` may be gone when this returns.
void SwapEngineCore::settle_content(TensorRecord& record, std::shared_ptr<TicketState> ticket,
                                    Lock& lock, Outbox& outbox) {
  record.reading.reset();
  record.arriving = false;
  outbox.drop(std::move(record.replaced.block));
  record.presence = Presence::kCurrent;
  record.memory_generation = record.generation;
  record.certain_generation = record.generation;
  ahead_.end(to_number(record.id));
  for (WaitingGet& waiting : std::exchange(record.waiting_for_read, {})) {
    outbox.fulfil(std::move(waiting.ticket), std::nullopt, lend(record, waiting.access));
  }
  update_use(record);
  record.unwritten.reset();
  const bool stays = residency_.holds(to_number(record.id)) && record.block->may_stay();
  // A resident of a durable store is written now: its next holder changes this memory in place, and
  // nobody could tell later when it holds a whole content.
  if (stays && !namespaces_.at(record.space).store->is_durable()) {
    outbox.drop(std::exchange(record.stored, nullptr));
    outbox.fulfil(std::move(ticket), std::nullopt);
    return;
  }
  if (!stays) {  // a slot cannot be kept: it becomes resident when next read
    residency_.release(to_number(record.id));
  }
  Writing writing = Writing::of_memory(record);
  writing.ticket = std::move(ticket);
  begin_write(std::move(writing), lock);
}

Ticket SwapEngineCore::put(TensorId tensor, std::span<const std::byte> source) {
  Outbox outbox;
  Lock lock(mutex_);
  TensorRecord* record = record_of(tensor);
  if (record == nullptr || closed_) {
    return Ticket::failed(unknown(tensor));
  }
  if (source.size() != record->bytes) {
    return Ticket::failed(
        fault(Fault::kWrongSize, fmt::format("tensor '{}' has {} bytes, the source {}",
                                             record->info.name, record->bytes, source.size())));
  }
  if (claim_residency(*record, lock, outbox)) {
    return put_resident(tensor, source, lock);
  }
  record = record_of(tensor);
  if (record == nullptr || closed_) {
    return Ticket::failed(unknown(tensor));
  }
  auto state = std::make_shared<TicketState>(waiting_);
  Writing writing = replace(*record, state, outbox);
  // Gets that wait for a read of the older content get the new one instead.
  for (WaitingGet& waiting : std::exchange(record->waiting_for_read, {})) {
    record->waiting_for_write.push_back(std::move(waiting));
  }
  writing.source = source;
  begin_write(std::move(writing), lock);
  return Ticket(std::move(state));
}

/// What would be lost, were the newest content to come and fail.
OlderContent SwapEngineCore::older_content(const TensorRecord& record) {
  return record.presence == Presence::kCurrent && !record.clean()
             ? OlderContent{record.block, record.memory_generation}
             : record.replaced;
}

/// What memory holds of the tensor is no longer its content; it comes back should the next one
/// fail, where no drive has it.
SwapEngineCore::Writing SwapEngineCore::replace(TensorRecord& record,
                                                std::shared_ptr<TicketState> ticket,
                                                Outbox& outbox) {
  Writing writing;
  writing.id = record.id;
  writing.bytes = record.bytes;
  writing.ticket = std::move(ticket);
  writing.before = older_content(record);
  record.generation += sabotaged(Sabotage::kGenerationBump) ? 0U : 1U;
  writing.generation = record.generation;
  scheduler_.record_rewrite(to_number(record.id));
  drop_memory(record, outbox);
  record.unwritten.reset();
  return writing;
}

/// Copies the next content into RAM: into the resident's own memory where nobody looks at it (gets
/// wait meanwhile, as for a read), else into new memory. Lets go of the lock.
Ticket SwapEngineCore::put_resident(TensorId tensor, std::span<const std::byte> source,
                                    Lock& lock) {
  Lease lease;
  TensorRecord* record = record_of(tensor);
  if (record != nullptr && record->presence == Presence::kCurrent && record->block->may_stay() &&
      record->block->leases == 0 && record->writes_in_flight == 0) {
    lease = lend(*record, Access::kUpdate);
    record->presence = Presence::kFilling;
    ++record->fill;
    lock.unlock();
  } else {
    lock.unlock();
    Result<std::shared_ptr<Block>> block = resident_block(source.size());
    if (block.has_error()) {
      return Ticket::failed(std::move(block).error());
    }
    lock.lock();
    record = record_of(tensor);
    if (record == nullptr || closed_) {
      return Ticket::failed(unknown(tensor));
    }
    lease = lend(std::move(block).value(), *record, Access::kUpdate);
    lock.unlock();
  }
  std::memcpy(lease.data(), source.data(), source.size());
  return commit(lease);
}

SwapEngineCore::Writing SwapEngineCore::Writing::of_memory(const TensorRecord& record) {
  Writing writing;
  writing.id = record.id;
  writing.generation = record.memory_generation;
  writing.bytes = record.bytes;
  writing.block = record.block;
  writing.source = record.block->span();
  return writing;
}

/// Sends one content on its way; lets go of the lock for checksum and space. Its record may be gone
/// when this returns.
void SwapEngineCore::begin_write(Writing writing, Lock& lock) {
  TensorRecord& record = *record_of(writing.id);
  writing.number = record.number;
  writing.store = namespaces_.at(record.space).store;
  writing.info = record.info;
  ++record.writes_in_flight;
  writing_bytes_ += writing.bytes;
  operation_begun();
  update_use(record);
  lock.unlock();
  if (!writing.source.empty()) {  // a device's is formed on the way
    writing.checksum = checksum(options_.config.penstock.integrity, writing.source);
  }
  Result<void> space = reserve_space(writing);
  if (space.has_error()) {
    write_finished(std::move(writing), std::move(space).error());
  } else {
    submit_write(std::move(writing));
  }
  lock.lock();
}

Result<void> SwapEngineCore::reserve_space(Writing& writing) const {
  Result<StoredTensor> reserved =
      writing.store->reserve(writing.number, writing.generation, writing.bytes, writing.refused);
  if (reserved.has_error()) {
    Error error = std::move(reserved).error();
    error.message = fmt::format("cannot write tensor '{}' ({}): {}", writing.info.name,
                                format_bytes(writing.bytes), error.message);
    error.tensor = writing.info.name;
    return error;
  }
  StoredTensor stored = std::move(reserved).value();
  stored.identity.level = static_cast<std::uint64_t>(options_.config.penstock.integrity);
  stored.identity.checksum = writing.checksum;
  writing.stored = writing.store->hold(stored);
  return {};
}

void SwapEngineCore::submit_write(Writing writing) {
  if (writing.source.empty()) {
    write_from_device(std::move(writing));
    return;
  }
  const IoPriority priority = writing.block ? IoPriority::kBehind : IoPriority::kDemand;
  Result<std::shared_ptr<StoreTransfer>> made = StoreTransfer::of_write(
      place_of(*writing.store, *writing.stored, writing.info.name), writing.source, priority);
  if (made.has_error()) {
    write_finished(std::move(writing), std::move(made).error());
    return;
  }
  const std::shared_ptr<StoreTransfer> transfer = std::move(made).value();
  transfer->start([core = shared_from_this(), keep = transfer,
                   writing = std::move(writing)](std::optional<Error> error) mutable {
    core->write_finished(std::move(writing), std::move(error));
  });
}

void SwapEngineCore::write_finished(Writing writing, std::optional<Error> error) {
  if (error &&
      (write_elsewhere(writing, *error) || (error->is_full() && arrive_instead(writing, *error)))) {
    return;
  }
  {
    Outbox outbox;
    Lock lock(mutex_);
    TensorRecord* record = record_of(writing.id);
    if (record != nullptr && !error) {
      error = stage(*record, writing);
    }
    const bool is_kept = error && keep_in_ram(writing, *error, lock, outbox);
    record = record_of(writing.id);
    writing_bytes_ -= writing.bytes;
    if (record != nullptr) {
      --record->writes_in_flight;
    }
    if (is_kept) {
      outbox.fulfil(std::move(writing.ticket), std::nullopt);
    } else if (error) {
      write_failed(record, writing, std::move(*error), outbox);
    } else {
      stats_.tensor_write_bytes += writing.bytes;
      stats_.padding_bytes += writing.stored->extent.bytes - writing.bytes;
      if (writing.source.empty()) {
        stats_.from_device_bytes += writing.device->memory.bytes;
      }
      if (record != nullptr) {
        publish(*record, writing, outbox);
      }
      outbox.fulfil(std::move(writing.ticket), std::nullopt);
    }
    if (record != nullptr) {
      serve_after_write(*record, lock, outbox);
    }
    outbox.drop(std::move(writing.block));
    outbox.drop(std::move(writing.stored));
    operation_ended();
  }
  run_ahead();
}

/// What is whole on its drive can be published, if nothing newer is.
std::optional<Error> SwapEngineCore::stage(const TensorRecord& record, const Writing& writing) {
  if (writing.generation <= record.stored_generation) {
    return std::nullopt;
  }
  Result<void> staged = writing.store->stage(record.info, writing.stored);
  if (staged.has_value()) {
    return std::nullopt;
  }
  Error error = std::move(staged).error();
  error.message =
      fmt::format("no room to publish tensor '{}': {}", writing.info.name, error.message);
  error.tensor = writing.info.name;
  return error;
}

/// The content is whole on its drive: the older one is given up. Contents may arrive out of order.
void SwapEngineCore::publish(TensorRecord& record, Writing& writing, Outbox& outbox) {
  failure_told_ = false;
  if (writing.generation <= record.stored_generation) {
    return;
  }
  outbox.drop(std::move(record.stored));
  record.stored = std::move(writing.stored);
  record.stored_generation = writing.generation;
  record.certain_generation = std::max(record.certain_generation, writing.generation);
  if (record.presence == Presence::kCurrent && record.memory_generation < writing.generation) {
    drop_memory(record, outbox);  // a content that had been brought back meanwhile
  }
  if (record.presence != Presence::kCurrent || record.clean()) {
    record.unwritten.reset();
  }
}

void SwapEngineCore::serve_again(TensorId tensor, std::vector<WaitingGet> waiting, Lock& lock,
                                 Outbox& outbox) {
  for (WaitingGet& get : waiting) {
    if (TensorRecord* still = record_of(tensor)) {
      serve(*still, std::move(get), lock, outbox);
    } else {
      outbox.fulfil(std::move(get.ticket), unknown(tensor));
    }
  }
}

/// Gets that had to wait for a write; then the memory of a content that is safe and that nobody
/// holds.
void SwapEngineCore::serve_after_write(TensorRecord& record, Lock& lock, Outbox& outbox) {
  const TensorId tensor = record.id;
  if (record.writes_in_flight == 0) {
    serve_again(tensor, std::exchange(record.waiting_for_write, {}), lock, outbox);
  }
  TensorRecord* still = record_of(tensor);
  if (still == nullptr || still->presence != Presence::kCurrent) {
    return;
  }
  if (still->clean() && still->block->leases == 0 && !ahead_.holds(to_number(tensor)) &&
      !residency_.holds(to_number(tensor))) {
    drop_memory(*still, outbox);
  } else {
    update_use(*still);
  }
}

}  // namespace penstock
