// Contents that are read and written in parts: what ContentReader and ContentWriter ask for.

#include <fmt/format.h>

#include <utility>

#include "alloc/bytes.h"
#include "swap/content_reader.h"
#include "swap/content_writer.h"
#include "swap/swap_engine_core.h"

namespace penstock {

using Presence = TensorRecord::Presence;

Result<ContentReader> SwapEngineCore::read(const std::vector<TensorId>& tensors) {
  ContentReader reader;
  reader.core_ = shared_from_this();
  std::vector<StoredContent> stored;
  for (const TensorId tensor : tensors) {
    Result<ReadyContent> ready = ready_content(tensor);
    PENSTOCK_TRY(ready);
    if (ready->stored) {
      stored.push_back(std::move(*ready->stored));
    }
    reader.sources_.push_back({std::move(ready->lease), std::move(ready->store)});
  }
  if (!stored.empty()) {
    Result<std::unique_ptr<StoredReader>> made = StoredReader::make(*queue_, std::move(stored));
    PENSTOCK_TRY(made);
    reader.stored_ = std::move(*made);
  }
  return reader;
}

/// A lease on what is in memory, or on its way there from elsewhere; else where it lies.
Result<SwapEngineCore::ReadyContent> SwapEngineCore::ready_content(TensorId tensor) {
  {
    const std::lock_guard lock(mutex_);
    const TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return unknown(tensor);
    }
    const bool is_on_drive = record->presence != Presence::kCurrent && !record->arriving &&
                             record->writes_in_flight == 0 && record->stored;
    if (is_on_drive) {
      const std::shared_ptr<SwapStore>& store = namespaces_.at(record->space).store;
      PENSTOCK_TRY(store->check_readable(*record->stored, record->info.name));
      return ReadyContent{
          {},
          StoredContent{record->info.name, record->stored, &store->file(*record->stored)},
          store};
    }
  }
  Result<Lease> lease = get(tensor, Access::kRead).lease();
  PENSTOCK_TRY(lease);
  return ReadyContent{std::move(*lease), std::nullopt, nullptr};
}

Result<ContentWriter> SwapEngineCore::write() {
  Result<std::unique_ptr<StoredWriter>> writer =
      StoredWriter::make(*queue_, options_.config.integrity);
  PENSTOCK_TRY(writer);
  return ContentWriter(shared_from_this(), std::move(*writer));
}

/// Room for the next content: memory where it is to stay in RAM, else on a drive.
Result<SwapEngineCore::NewContent> SwapEngineCore::reserve_content(TensorId tensor) {
  NewContent room;
  bool stays = false;
  {
    Locked locked(mutex_, *this);
    TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return unknown(tensor);
    }
    room.bytes = record->bytes;
    stays = claim_residency(*record, locked);
  }
  Result<std::shared_ptr<Block>> block =
      stays ? resident_block(room.bytes) : Result<std::shared_ptr<Block>>(nullptr);
  Writing writing;
  {
    Locked locked(mutex_, *this);
    TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return unknown(tensor);
    }
    if (block.has_value() && *block) {
      room.lease = lend(*block, *record, Lent::kToFill);
      return room;
    }
    if (stays) {
      residency_.release(to_number(tensor));
    }
    writing = *make_writing(*record, nullptr);
    writing.generation = ++record->generation;
  }
  PENSTOCK_TRY(reserve_space(writing));
  room.store = writing.store;
  room.stored = std::move(writing.stored);
  return room;
}

/// What lies whole on a drive is the tensor's content, if nothing newer is.
Ticket SwapEngineCore::adopt_content(TensorId tensor, std::shared_ptr<StoredTensor> stored) {
  auto state = std::make_shared<TicketState>(waiting_);
  WritingPtr writing;
  {
    Locked locked(mutex_, *this);
    TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return Ticket::failed(unknown(tensor));
    }
    writing = make_writing(*record, state);
    writing->generation = stored->identity.generation;
    writing->stored = std::move(stored);
    record->waiting_for_write.reserve(record->waiting_for_write.size() +
                                      record->waiting_for_read.size());
    if (record->generation == writing->generation) {  // what memory has, or reads, is older
      writing->before = older_content(*record);
      drop_memory(*record, locked);
      record->unwritten.reset();
      for (WaitingGet& waiting : std::exchange(record->waiting_for_read, {})) {
        record->waiting_for_write.push_back(std::move(waiting));
      }
    }
    ++record->writes_in_flight;
    writing_bytes_ += writing->bytes;
    operation_begun();
  }
  write_finished(writing, std::nullopt);
  return Ticket(std::move(state));
}

}  // namespace penstock
