#include "swap/engine/committer.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "alloc/sabotage.h"
#include "swap/engine/completion_error.h"

namespace penstock {

/// What ends at once may be a first put that has failed without a write.
template <class Put>
Ticket Committer::or_undeclared(TensorId tensor, Put put) {
  const auto undo = [this, tensor] {
    Locked locked(context_);
    declarations_.undo(tensor, locked);
  };
  try {
    Ticket ticket = put();
    if (ticket.done()) {
      undo();
    }
    return ticket;
  } catch (const std::bad_alloc&) {
    undo();
    throw;
  }
}

Result<Lease> Committer::allocate(TensorId tensor) {
  {
    Locked locked(context_);
    TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return table_.unknown(tensor);
    }
    // A resident that still lies in a slot moves out.
    const bool in_place = record->memory.is_current() && reader_.changes_in_place(*record) &&
                          record->memory.block->may_stay() && record->memory.block->leases == 0 &&
                          record->drive.writes_in_flight == 0;
    if (in_place) {
      Lease lease = memory_.lend(*record, EngineMemory::Lent::kToFill);
      if (record->clean()) {
        memory_.drop(*record, locked);  // the drive's is the content until there is another
      }
      return lease;
    }
    context_.operation_begun();
  }
  Result<std::shared_ptr<Block>> block =
      unless_out_of_memory([&] { return broker_.obtain(tensor); });
  Locked locked(context_);
  context_.operation_ended();
  PENSTOCK_TRY(block);
  TensorRecord* const record = table_.record_of(tensor);
  if (record == nullptr) {
    locked.drop(std::move(block).value());
    return table_.unknown(tensor);
  }
  return memory_.lend(*block, *record, EngineMemory::Lent::kToFill);
}

Ticket Committer::commit(const Lease& lease, std::optional<std::uint64_t> since) {
  if (!lease) {
    return Ticket::failed(fault(Fault::kInvalidArgument, "an empty lease cannot be committed"));
  }
  if (!lease.token()->is_of(context_.engine)) {
    return Ticket::failed(fault(Fault::kInvalidArgument,
                                "a lease that another engine gave cannot be committed here"));
  }
  Locked locked(context_);
  TensorRecord* record = table_.record_of(lease.tensor());
  if (record == nullptr || context_.closed) {
    return Ticket::failed(table_.unknown(lease.tensor()));
  }
  if (lease.token()->access() == Access::kRead) {
    return Ticket::failed(fault(
        Fault::kInvalidArgument,
        fmt::format("this lease of tensor '{}' was taken to read: get it for an update to commit",
                    record->info->name)));
  }
  if (since && has_newer(*record, *since)) {
    return Ticket::ready({});
  }
  // Again is all right, after a write that has failed say, but not over what has come since.
  if (const auto committed = lease.token()->committed();
      committed && has_newer(*record, *committed)) {
    return Ticket::failed(fault(
        Fault::kInvalidArgument,
        fmt::format("this lease of tensor '{}' was committed already, and a newer content has come",
                    record->info->name)));
  }
  auto state = std::make_shared<TicketState>(context_.waiting);
  WritingPtr writing = writes_.make(*record, state);
  take(*record, *lease.token(), std::move(writing), locked);
  lease.token()->note_commit(record->generation);
  return Ticket(std::move(state));
}

/// A content has come since that generation, or is under way and has not failed.
bool Committer::has_newer(const TensorRecord& record, std::uint64_t since) {
  const bool comes = record.drive.writes_in_flight > 0 || record.memory.is_arriving();
  return record.certain_generation > since || (record.generation > since && comes);
}

/// What a lease holds is the content from now on.
void Committer::take(TensorRecord& record, LeaseToken& token, WritingPtr writing,
                     Locked& locked) noexcept {
  const std::shared_ptr<Block>& block = token.block();
  EngineMemory::end_changes(token, &record);
  ++context_.stats.commits;
  record.generation += sabotaged(Sabotage::kGenerationBump) ? 0U : 1U;
  writing->generation = record.generation;
  writes_.note_rewrite(record, !block->may_stay() && !token.of_content());
  if (record.memory.block != block) {
    memory_.drop(record, locked);
    record.memory.block = block;
  }
  settle(record, std::move(writing), locked);
}

/// `record.memory.block` holds all of the newest content: kept as resident, or written behind
/// reads. Its generation is its own: a ContentWriter may have taken the record's since.
void Committer::settle(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept {
  const TensorId tensor = record.id;
  record.memory.reading.reset();
  locked.drop(std::move(record.memory.replaced.block));
  record.memory.replaced.block.reset();
  record.memory.become_current(writing->generation);
  record.certain_generation = writing->generation;
  memory_.ahead().end(tensor);
  std::vector<WaitingGet> updates = reader_.lend_to_readers(record, locked);
  memory_.update_use(record);
  record.drive.unwritten.reset();
  const bool stays = memory_.residency().holds(tensor) && record.memory.block->may_stay();
  // A resident of a durable store is written now: its next holder changes this memory in place, and
  // later it would be unknown when it holds a whole content.
  if (stays && !writing->store->is_durable()) {
    locked.drop(std::exchange(record.drive.stored, nullptr));
    locked.fulfil(std::move(writing->ticket), std::nullopt);
    reader_.serve_again(record, std::move(updates), locked);
    return;
  }
  if (!stays) {  // a slot cannot be kept: it becomes resident when next read
    memory_.residency().release(tensor);
  }
  writes_.write_memory(record, std::move(writing), locked);
  reader_.serve_again(record, std::move(updates), locked);
}

Ticket Committer::put(TensorId tensor, std::span<const std::byte> source) {
  return or_undeclared(tensor, [&] { return put_content(tensor, source); });
}

Ticket Committer::put_content(TensorId tensor, std::span<const std::byte> source) {
  auto state = std::make_shared<TicketState>(context_.waiting);
  WritingPtr writing;
  Lease in_place;
  {
    Locked locked(context_);
    TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return Ticket::failed(table_.unknown(tensor));
    }
    if (source.size() != record->bytes()) {
      return Ticket::failed(fault(Fault::kWrongSize,
                                  fmt::format("tensor '{}' has {} bytes, the source {}",
                                              record->info->name, record->bytes(), source.size())));
    }
    const bool stays = broker_.claim_residency(*record, locked);
    writing = writes_.make(*record, state);
    if (!stays) {
      put_behind(*record, std::move(writing), source, locked);
      return Ticket(std::move(state));
    }
    in_place = lend_in_place(*record);
  }
  const Result<Lease> room = resident_room(tensor, source, std::move(in_place));
  if (room.has_error()) {
    return Ticket::failed(room.error());
  }
  Locked locked(context_);
  if (TensorRecord* const record = table_.record_of(tensor);
      record != nullptr && !context_.closed) {
    take(*record, *room->token(), std::move(writing), locked);
  } else {
    locked.fulfil(state,
                  said(make_error_code(Fault::kUnknownTensor),
                       [this, tensor]() PENSTOCK_NEEDS_LOCK { return table_.unknown(tensor); }));
  }
  return Ticket(std::move(state));
}

/// Writes the next content from the caller's memory.
void Committer::put_behind(TensorRecord& record, WritingPtr writing,
                           std::span<const std::byte> source, Locked& locked) {
  record.gets.expect_await_write();
  // From here on nothing can fail for want of memory.
  writes_.replace(record, *writing, locked);
  record.gets.await_write();
  writing->source = source;
  writes_.begin(std::move(writing), locked);
}

/// A resident's own memory, where nothing looks at it; gets wait meanwhile, as for a read. Empty:
/// its next content needs new memory.
Lease Committer::lend_in_place(TensorRecord& record) {
  if (!record.memory.is_current() || !record.memory.block->may_stay() ||
      record.memory.block->leases > 0 || record.drive.writes_in_flight > 0) {
    return {};
  }
  Lease lease = memory_.lend(record, EngineMemory::Lent::kToFill);
  record.memory.begin(Presence::kCopying);
  return lease;
}

/// Memory in RAM with the bytes of `source`: `in_place`, or new. Errors: no memory; the tensor is
/// not known any more.
Result<Lease> Committer::resident_room(TensorId tensor, std::span<const std::byte> source,
                                       Lease in_place) {
  if (in_place) {
    std::memcpy(in_place.data(), source.data(), source.size());
    return in_place;
  }
  Result<std::shared_ptr<Block>> block = memory_.resident_copy(source);
  PENSTOCK_TRY(block);
  Locked locked(context_);
  TensorRecord* const record = table_.record_of(tensor);
  if (record == nullptr || context_.closed) {
    locked.drop(std::move(block).value());
    return table_.unknown(tensor);
  }
  return memory_.lend(*block, *record, EngineMemory::Lent::kToFill);
}

Ticket Committer::put_from_device(TensorId tensor, const DeviceTensor& source) {
  return or_undeclared(tensor, [&] { return put_device_content(tensor, source); });
}

Ticket Committer::put_device_content(TensorId tensor, const DeviceTensor& source) {
  auto state = std::make_shared<TicketState>(context_.waiting);
  std::uint64_t bytes = 0;
  bool stays = false;
  {
    Locked locked(context_);
    TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return Ticket::failed(table_.unknown(tensor));
    }
    if (const auto staging = devices_.check(*record, source); staging.has_error()) {
      return Ticket::failed(staging.error());
    }
    bytes = record->bytes();
    stays = broker_.claim_residency(*record, locked);
    context_.operation_begun();
  }
  Result<std::shared_ptr<Block>> found = unless_out_of_memory(
      [&]() -> Result<std::shared_ptr<Block>> { return arrival_block(tensor, stays, bytes); });
  Locked locked(context_);
  context_.operation_ended();
  if (found.has_error()) {
    return Ticket::failed(std::move(found).error());
  }
  std::shared_ptr<Block> block = std::move(*found);
  TensorRecord* const record = table_.record_of(tensor);
  if (record == nullptr || context_.closed) {
    locked.drop(std::move(block));
    return Ticket::failed(table_.unknown(tensor));
  }
  WritingPtr writing = writes_.make(*record, state);
  record->gets.expect_await_write();
  writes_.replace(*record, *writing, locked);
  writing->device = source;
  if (block) {
    writing->block = std::move(block);
    writes_.begin_arrival(*record, std::move(writing), locked);
    return Ticket(std::move(state));
  }
  record->gets.await_write();
  writes_.begin(std::move(writing), locked);
  return Ticket(std::move(state));
}

/// Memory for a content that comes from a device: where it may stay, or a slot that is free now.
/// Null: it goes straight to its drive.
std::shared_ptr<Block> Committer::arrival_block(TensorId tensor, bool stays, std::uint64_t bytes) {
  if (stays) {
    Result<std::shared_ptr<Block>> block = memory_.resident_block(bytes);
    if (block.has_value()) {
      return std::move(*block);
    }
    const BriefLock lock(context_);
    memory_.residency().release(tensor);
  }
  auto block = std::make_shared<Block>(Buffer(), bytes);
  std::optional<Buffer> slot = memory_.pool()->try_acquire_slot(bytes);
  if (!slot) {
    return nullptr;
  }
  block->buffer = std::move(*slot);
  return block;
}

void Committer::receive(const WritingPtr& writing) noexcept {
  Result<void> begun = unless_out_of_memory([&]() -> Result<void> {
    const bool is_pinned = !writing->block->may_stay();
    const DeviceTensor source = *writing->device;
    (*devices_.of(source))
        ->move({writing->info, source, InMemory{writing->block->span(), is_pinned}},
               [this, engine = context_.hold(), writing](Result<std::uint64_t> copied) {
                 arrived(writing, error_of(std::move(copied)));
               });
    return {};
  });
  if (begun.has_error()) {
    arrived(writing, std::move(begun).error());
  }
}

/// A newer content may have come meanwhile. Then this one is only worth writing as long as that is
/// not certain itself.
void Committer::arrived(const WritingPtr& arrival, std::optional<Error> error) noexcept {
  Locked locked(context_);
  Writing& writing = *arrival;
  TensorRecord* const record = table_.record_of(writing.id);
  const std::uint64_t fill = std::exchange(writing.fill, 0);
  const bool is_newest =
      record != nullptr && record->memory.is_arriving() && record->memory.fill() == fill;
  std::shared_ptr<Block> block = writing.block;
  context_.writes.end(writing.half);
  context_.stats.from_device_bytes += error ? 0 : writing.device->memory.bytes;
  if (error) {
    fail_arrival(is_newest ? record : nullptr, writing, std::move(*error), locked);
  } else if (is_newest) {
    settle(*record, arrival, locked);
  } else if (record != nullptr && record->certain_generation < writing.generation) {
    writes_.begin(arrival, locked);
  } else {
    locked.fulfil(
        std::move(writing.ticket),
        record != nullptr ? std::nullopt : table_.came_too_late(*writing.store, *writing.info));
  }
  locked.drop(std::move(block));
  context_.operation_ended();
  locked.run_ahead();
}

/// `newest` is the tensor's record, where nothing newer has come meanwhile.
void Committer::fail_arrival(TensorRecord* newest, Writing& arrival, Error error,
                             Locked& locked) noexcept {
  locked.drop(std::move(arrival.block));
  if (newest == nullptr) {
    rescue_.fail(table_.record_of(arrival.id), arrival, std::move(error), locked);
    return;
  }
  memory_.drop(*newest, locked);
  rescue_.fail(newest, arrival, std::move(error), locked);
  if (newest->memory.is_absent()) {
    memory_.residency().release(arrival.id);
  }
  reader_.serve_again(*newest, std::exchange(newest->gets.for_read, {}), locked);
  declarations_.undo(arrival.id, locked);
}

}  // namespace penstock
