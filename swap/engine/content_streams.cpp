#include "swap/engine/content_streams.h"

#include <utility>

namespace penstock {

Result<ContentReader> ContentStreams::read(const std::vector<TensorId>& tensors) {
  ContentReader reader;
  reader.engine_ = context_.hold();
  std::vector<StoredContent> stored;
  for (const TensorId tensor : tensors) {
    Result<ReadyContent> content = ready(tensor);
    PENSTOCK_TRY(content);
    if (content->stored) {
      stored.push_back(std::move(*content->stored));
    }
    reader.sources_.push_back({std::move(content->lease), std::move(content->store)});
  }
  if (!stored.empty()) {
    Result<std::unique_ptr<StoredReader>> made =
        StoredReader::make(*context_.queue, std::move(stored));
    PENSTOCK_TRY(made);
    reader.stored_ = std::move(*made);
  }
  return reader;
}

/// A lease on what is in memory, or on its way there from elsewhere; else where it lies.
Result<ContentStreams::ReadyContent> ContentStreams::ready(TensorId tensor) {
  {
    const BriefLock lock(context_);
    const TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return table_.unknown(tensor);
    }
    const bool is_on_drive = record->memory.is_as_on_drive() &&
                             record->drive.writes_in_flight == 0 && record->drive.stored;
    if (is_on_drive) {
      const std::shared_ptr<SwapStore>& store = table_.store_of(*record);
      PENSTOCK_TRY(store->check_readable(*record->drive.stored, record->info->name));
      return ReadyContent{{},
                          StoredContent{record->info->name, record->drive.stored,
                                        &store->file(*record->drive.stored)},
                          store};
    }
  }
  Result<Lease> lease = reader_.get(tensor, Access::kRead).lease();
  PENSTOCK_TRY(lease);
  return ReadyContent{std::move(*lease), std::nullopt, nullptr};
}

Result<ContentWriter> ContentStreams::write() {
  Result<std::unique_ptr<StoredWriter>> writer =
      StoredWriter::make(*context_.queue, context_.options.config.integrity);
  PENSTOCK_TRY(writer);
  return ContentWriter(context_.hold(*this), std::move(*writer));
}

Result<ContentStreams::NewContent> ContentStreams::reserve(TensorId tensor) {
  NewContent room;
  bool stays = false;
  {
    Locked locked(context_);
    TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return table_.unknown(tensor);
    }
    room.bytes = record->bytes();
    stays = broker_.claim_residency(*record, locked);
  }
  Result<std::shared_ptr<Block>> block =
      stays ? memory_.resident_block(room.bytes) : Result<std::shared_ptr<Block>>(nullptr);
  Writing writing;
  {
    Locked locked(context_);
    TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return table_.unknown(tensor);
    }
    if (block.has_value() && *block) {
      room.since = record->generation;
      room.lease = memory_.lend(*block, *record, EngineMemory::Lent::kToFill);
      return room;
    }
    if (stays) {
      memory_.residency().release(tensor);
    }
    writing = *writes_.make(*record, nullptr);
    writing.generation = ++record->generation;
    room.use = writing.store->hold_use();
  }
  PENSTOCK_TRY(writer_.reserve_space(writing));
  room.store = writing.store;
  room.stored = std::move(writing.stored);
  return room;
}

Ticket ContentStreams::adopt(TensorId tensor, std::shared_ptr<StoredTensor> stored) {
  auto state = std::make_shared<TicketState>(context_.waiting);
  WritingPtr writing;
  {
    Locked locked(context_);
    TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr || context_.closed) {
      return Ticket::failed(table_.unknown(tensor));
    }
    writing = writes_.make(*record, state);
    writing->generation = stored->identity.generation;
    writing->stored = std::move(stored);
    record->gets.expect_await_write();
    if (record->generation == writing->generation) {  // what memory has, or reads, is older
      writing->before = writes_.older_content(*record);
      memory_.drop(*record, locked);
      record->drive.unwritten.reset();
      record->gets.await_write();
    }
    ++record->drive.writes_in_flight;
    context_.writes.begin(writing->half);
    context_.operation_begun();
  }
  writer_.finished(writing, std::nullopt);
  return Ticket(std::move(state));
}

}  // namespace penstock
