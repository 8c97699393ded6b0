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
  {
    Locked locked(mutex_, *this);
    TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return unknown(tensor);
    }
    // A resident that still lies in a slot moves out.
    const bool in_place = record->presence == Presence::kCurrent && changes_in_place(*record) &&
                          record->block->may_stay() && record->block->leases == 0 &&
                          record->writes_in_flight == 0;
    if (in_place) {
      Lease lease = lend(*record, Lent::kToFill);
      if (record->clean()) {
        drop_memory(*record, locked);  // the drive's is the content until there is another
      }
      return lease;
    }
    operation_begun();
  }
  Result<std::shared_ptr<Block>> block = unless_out_of_memory([&] { return obtain_block(tensor); });
  Locked locked(mutex_, *this);
  operation_ended();
  PENSTOCK_TRY(block);
  TensorRecord* const record = record_of(tensor);
  if (record == nullptr) {
    locked.drop(std::move(block).value());
    return unknown(tensor);
  }
  return lend(*block, *record, Lent::kToFill);
}

Ticket SwapEngineCore::commit(const Lease& lease) {
  if (!lease) {
    return Ticket::failed(fault(Fault::kInvalidArgument, "an empty lease cannot be committed"));
  }
  if (!lease.token()->is_of(weak_from_this())) {
    return Ticket::failed(fault(Fault::kInvalidArgument,
                                "a lease that another engine gave cannot be committed here"));
  }
  Locked locked(mutex_, *this);
  TensorRecord* record = record_of(lease.tensor());
  if (record == nullptr || closed_) {
    return Ticket::failed(unknown(lease.tensor()));
  }
  if (lease.token()->access() == Access::kRead) {
    return Ticket::failed(fault(
        Fault::kInvalidArgument,
        fmt::format("this lease of tensor '{}' was taken to read: get it for an update to commit",
                    record->info.name)));
  }
  auto state = std::make_shared<TicketState>(waiting_);
  WritingPtr writing = make_writing(*record, state);
  take_content(*record, *lease.token(), std::move(writing), locked);
  return Ticket(std::move(state));
}

/// What a lease holds is the content from now on.
void SwapEngineCore::take_content(TensorRecord& record, LeaseToken& token, WritingPtr writing,
                                  Locked& locked) noexcept {
  const std::shared_ptr<Block>& block = token.block();
  end_changes(token);
  ++stats_.commits;
  record.generation += sabotaged(Sabotage::kGenerationBump) ? 0U : 1U;
  note_rewrite(record);
  if (record.block != block) {
    drop_memory(record, locked);
    record.block = block;
  }
  settle_content(record, std::move(writing), locked);
}

/// `record.block` holds all of the newest content: kept as resident, or written behind reads.
void SwapEngineCore::settle_content(TensorRecord& record, WritingPtr writing,
                                    Locked& locked) noexcept {
  const TensorId tensor = record.id;
  record.reading.reset();
  record.arriving = false;
  locked.drop(std::move(record.replaced.block));
  record.replaced.block.reset();
  record.presence = Presence::kCurrent;
  record.memory_generation = record.generation;
  record.certain_generation = record.generation;
  ahead_.end(to_number(tensor));
  std::vector<WaitingGet> updates = lend_to_readers(record, locked);
  update_use(record);
  record.unwritten.reset();
  const bool stays = residency_.holds(to_number(tensor)) && record.block->may_stay();
  // A resident of a durable store is written now: its next holder changes this memory in place, and
  // nobody could tell later when it holds a whole content.
  if (stays && !writing->store->is_durable()) {
    locked.drop(std::exchange(record.stored, nullptr));
    locked.fulfil(std::move(writing->ticket), std::nullopt);
    serve_again(tensor, std::move(updates), locked);
    return;
  }
  if (!stays) {  // a slot cannot be kept: it becomes resident when next read
    residency_.release(to_number(tensor));
  }
  write_memory(record, std::move(writing), locked);
  serve_again(tensor, std::move(updates), locked);
}

Ticket SwapEngineCore::put(TensorId tensor, std::span<const std::byte> source) {
  return or_undeclared(tensor, [&] { return put_content(tensor, source); });
}

Ticket SwapEngineCore::put_content(TensorId tensor, std::span<const std::byte> source) {
  auto state = std::make_shared<TicketState>(waiting_);
  WritingPtr writing;
  Lease in_place;
  {
    Locked locked(mutex_, *this);
    TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return Ticket::failed(unknown(tensor));
    }
    if (source.size() != record->bytes) {
      return Ticket::failed(
          fault(Fault::kWrongSize, fmt::format("tensor '{}' has {} bytes, the source {}",
                                               record->info.name, record->bytes, source.size())));
    }
    const bool stays = claim_residency(*record, locked);
    writing = make_writing(*record, state);
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
  Locked locked(mutex_, *this);
  if (TensorRecord* const record = record_of(tensor); record != nullptr && !closed_) {
    take_content(*record, *room->token(), std::move(writing), locked);
  } else {
    locked.fulfil(state, said(make_error_code(Fault::kUnknownTensor),
                              [this, tensor] { return unknown(tensor); }));
  }
  return Ticket(std::move(state));
}

/// Writes the next content from the caller's memory.
void SwapEngineCore::put_behind(TensorRecord& record, WritingPtr writing,
                                std::span<const std::byte> source, Locked& locked) {
  record.waiting_for_write.reserve(record.waiting_for_write.size() +
                                   record.waiting_for_read.size());
  // From here on nothing can fail for want of memory.
  replace(record, *writing, locked);
  // Gets that wait for a read of the older content get the new one instead.
  for (WaitingGet& waiting : std::exchange(record.waiting_for_read, {})) {
    record.waiting_for_write.push_back(std::move(waiting));
  }
  writing->source = source;
  begin_write(std::move(writing), locked);
}

/// A resident's own memory, where nothing looks at it; gets wait meanwhile, as for a read. Empty:
/// its next content needs new memory.
Lease SwapEngineCore::lend_in_place(TensorRecord& record) {
  if (record.presence != Presence::kCurrent || !record.block->may_stay() ||
      record.block->leases > 0 || record.writes_in_flight > 0) {
    return {};
  }
  Lease lease = lend(record, Lent::kToFill);
  record.presence = Presence::kFilling;
  ++record.fill;
  return lease;
}

/// Memory in RAM with the bytes of `source`: `in_place`, or new. Errors: no memory; the tensor is
/// not known any more.
Result<Lease> SwapEngineCore::resident_room(TensorId tensor, std::span<const std::byte> source,
                                            Lease in_place) {
  if (in_place) {
    std::memcpy(in_place.data(), source.data(), source.size());
    return in_place;
  }
  Result<std::shared_ptr<Block>> block = resident_copy(source);
  PENSTOCK_TRY(block);
  Locked locked(mutex_, *this);
  TensorRecord* const record = record_of(tensor);
  if (record == nullptr || closed_) {
    locked.drop(std::move(block).value());
    return unknown(tensor);
  }
  return lend(*block, *record, Lent::kToFill);
}

/// All that a write of the tensor needs to know and can know beforehand.
WritingPtr SwapEngineCore::make_writing(const TensorRecord& record,
                                        std::shared_ptr<TicketState> ticket) const {
  auto writing = std::make_shared<Writing>();
  writing->id = record.id;
  writing->number = record.number;
  writing->bytes = record.bytes;
  writing->store = namespaces_.at(record.space).store;
  writing->info = record.info;
  writing->ticket = std::move(ticket);
  return writing;
}

/// What would be lost, were the newest content to come and fail.
OlderContent SwapEngineCore::older_content(const TensorRecord& record) {
  return record.presence == Presence::kCurrent && !record.clean()
             ? OlderContent{record.block, record.memory_generation}
             : record.replaced;
}

/// What memory holds of the tensor is no longer its content; it comes back should the next one
/// fail, where no drive has it.
void SwapEngineCore::replace(TensorRecord& record, Writing& writing, Locked& locked) noexcept {
  writing.before = older_content(record);
  record.generation += sabotaged(Sabotage::kGenerationBump) ? 0U : 1U;
  writing.generation = record.generation;
  note_rewrite(record);
  drop_memory(record, locked);
  record.unwritten.reset();
}

void SwapEngineCore::note_rewrite(const TensorRecord& record) noexcept {
  if_memory_allows([&] { scheduler_.record_rewrite(to_number(record.id)); });
}

/// Writes what memory holds of the tensor.
void SwapEngineCore::write_memory(TensorRecord& record, WritingPtr writing,
                                  Locked& locked) noexcept {
  writing->generation = record.memory_generation;
  writing->block = record.block;
  writing->source = record.block->span();
  begin_write(std::move(writing), locked);
}

/// Sends one content on its way. Whatever goes wrong, write_finished() says it.
void SwapEngineCore::begin_write(WritingPtr writing, Locked& locked) noexcept {
  TensorRecord& record = *record_of(writing->id);
  ++record.writes_in_flight;
  writing_bytes_ += writing->bytes;
  operation_begun();
  update_use(record);
  locked.send(std::move(writing));
}

void SwapEngineCore::send(WritingPtr writing) noexcept {
  if (writing->fill != 0) {
    begin_copy(std::move(writing));
    return;
  }
  Result<void> sent = unless_out_of_memory([&]() -> Result<void> {
    if (!writing->source.empty()) {  // a device's is formed on the way
      writing->checksum = checksum(options_.config.integrity, writing->source);
    }
    PENSTOCK_TRY(reserve_space(*writing));
    return submit_write(writing);
  });
  if (sent.has_error()) {
    write_finished(writing, std::move(sent).error());
  }
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
  stored.identity.level = static_cast<std::uint64_t>(options_.config.integrity);
  stored.identity.checksum = writing.checksum;
  writing.stored = writing.store->hold(stored);
  return {};
}

/// Errors: nothing has begun, and write_finished() is not told.
Result<void> SwapEngineCore::submit_write(const WritingPtr& writing) {
  if (writing->source.empty()) {
    write_from_device(writing);
    return {};
  }
  const IoPriority priority = writing->block ? IoPriority::kBehind : IoPriority::kDemand;
  Result<std::shared_ptr<StoreTransfer>> made = StoreTransfer::of_write(
      place_of(*writing->store, *writing->stored, writing->info.name), writing->source, priority);
  if (made.has_error()) {
    return std::move(made).error();
  }
  const std::shared_ptr<StoreTransfer> transfer = std::move(made).value();
  transfer->start(
      [core = shared_from_this(), keep = transfer, writing](std::optional<Error> error) {
        core->write_finished(writing, std::move(error));
      });
  return {};
}

void SwapEngineCore::write_finished(const WritingPtr& finished,
                                    std::optional<Error> error) noexcept {
  if (error && goes_elsewhere(finished, *error)) {
    return;
  }
  Writing& writing = *finished;
  {
    Locked locked(mutex_, *this);
    TensorRecord* const record = record_of(writing.id);
    if (record != nullptr && !error) {
      error = stage(*record, writing);
    }
    if (!error || !may_stay_in_ram(writing, *error)) {
      end_write(writing, std::move(error), false, locked);
      return;
    }
  }
  // The write still counts as in flight, so that gets wait for what becomes of it.
  Result<std::shared_ptr<Block>> copy = writing.block;
  if (!writing.block) {
    copy = unless_out_of_memory([&] { return resident_copy(writing.source); });
  }
  Locked locked(mutex_, *this);
  const bool is_kept = keep_in_ram(writing, *error, std::move(copy), locked);
  end_write(writing, std::move(error), is_kept, locked);
}

/// It is on its drive, or `is_kept` in RAM, or neither.
void SwapEngineCore::end_write(Writing& writing, std::optional<Error> error, bool is_kept,
                               Locked& locked) noexcept {
  TensorRecord* const record = record_of(writing.id);
  writing_bytes_ -= writing.bytes;
  if (record != nullptr) {
    --record->writes_in_flight;
  }
  if (is_kept) {
    locked.fulfil(std::move(writing.ticket), std::nullopt);
  } else if (error) {
    write_failed(record, writing, std::move(*error), locked);
  } else {
    count_written(writing);
    if (record != nullptr) {
      publish(*record, writing, locked);
    }
    locked.fulfil(std::move(writing.ticket), std::nullopt);
  }
  if (record != nullptr) {
    serve_after_write(*record, locked);
    undo_declaration(writing.id, locked);
  }
  locked.drop(std::move(writing.block));
  locked.drop(std::move(writing.before.block));
  locked.drop(std::move(writing.stored));
  operation_ended();
  locked.run_ahead();
}

void SwapEngineCore::count_written(const Writing& writing) noexcept {
  stats_.tensor_write_bytes += writing.bytes;
  stats_.padding_bytes += writing.stored->extent.bytes - writing.bytes;
  if (writing.device) {
    stats_.from_device_bytes += writing.device->memory.bytes;
  }
}

/// What is whole on its drive can be published, if nothing newer is.
std::optional<Error> SwapEngineCore::stage(const TensorRecord& record,
                                           const Writing& writing) noexcept {
  if (writing.generation <= record.stored_generation) {
    return std::nullopt;
  }
  Result<void> staged =
      unless_out_of_memory([&] { return writing.store->stage(record.info, writing.stored); });
  if (staged.has_value()) {
    return std::nullopt;
  }
  return said(staged.error().code, [&] {
    Error error = staged.error();
    error.message =
        fmt::format("no room to publish tensor '{}': {}", writing.info.name, error.message);
    error.tensor = writing.info.name;
    return error;
  });
}

/// The content is whole on its drive: the older one is given up. Contents may arrive out of order.
void SwapEngineCore::publish(TensorRecord& record, Writing& writing, Locked& locked) noexcept {
  failure_told_ = false;
  if (writing.generation <= record.stored_generation) {
    return;
  }
  locked.drop(std::move(record.stored));
  record.stored = std::move(writing.stored);
  record.stored_generation = writing.generation;
  record.certain_generation = std::max(record.certain_generation, writing.generation);
  if (record.presence == Presence::kCurrent && record.memory_generation < writing.generation) {
    drop_memory(record, locked);  // a content that had been brought back meanwhile
  }
  if (record.presence != Presence::kCurrent || record.clean()) {
    record.unwritten.reset();
  }
}

void SwapEngineCore::serve_again(TensorId tensor, std::vector<WaitingGet> waiting,
                                 Locked& locked) noexcept {
  for (WaitingGet& get : waiting) {
    if (TensorRecord* still = record_of(tensor)) {
      serve(*still, std::move(get), locked);
    } else {
      locked.fulfil(std::move(get.ticket), said(make_error_code(Fault::kUnknownTensor),
                                                [this, tensor] { return unknown(tensor); }));
    }
  }
}

/// Gets that had to wait for a write; then the memory of a content that is safe and that nobody
/// holds.
void SwapEngineCore::serve_after_write(TensorRecord& record, Locked& locked) noexcept {
  const TensorId tensor = record.id;
  if (record.writes_in_flight == 0) {
    serve_again(tensor, std::exchange(record.waiting_for_write, {}), locked);
  }
  TensorRecord* still = record_of(tensor);
  if (still == nullptr || still->presence != Presence::kCurrent) {
    return;
  }
  if (still->clean() && still->block->leases == 0 && !ahead_.holds(to_number(tensor)) &&
      !residency_.holds(to_number(tensor))) {
    drop_memory(*still, locked);
  } else {
    update_use(*still);
  }
}

}  // namespace penstock
