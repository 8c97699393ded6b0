#include "swap/engine/write_queue.h"

#include <utility>

#include "alloc/sabotage.h"

namespace penstock {

WritingPtr WriteQueue::make(const TensorRecord& record, std::shared_ptr<TicketState> ticket) const {
  auto writing = std::make_shared<Writing>();
  writing->id = record.id;
  writing->number = record.number;
  writing->bytes = record.bytes();
  writing->store = table_.store_of(record);
  writing->info = record.info;
  writing->ticket = std::move(ticket);
  return writing;
}

OlderContent WriteQueue::older_content(const TensorRecord& record) {
  return record.memory.is_current() && !record.clean()
             ? OlderContent{record.memory.block, record.memory.generation}
             : record.memory.replaced;
}

void WriteQueue::replace(TensorRecord& record, Writing& writing, Locked& locked) noexcept {
  writing.before = older_content(record);
  record.generation += sabotaged(Sabotage::kGenerationBump) ? 0U : 1U;
  writing.generation = record.generation;
  note_rewrite(record, false);
  memory_.drop(record, locked);
  record.drive.unwritten.reset();
}

void WriteQueue::note_rewrite(TensorRecord& record, bool takes_slot) noexcept {
  record.memory.comes_in_slots = takes_slot;
  if_memory_allows([&]() PENSTOCK_NEEDS_LOCK { scheduler_.record_rewrite(record.id); });
}

void WriteQueue::write_memory(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept {
  writing->generation = record.memory.generation;
  writing->block = record.memory.block;
  writing->source = record.memory.block->span();
  begin(std::move(writing), locked);
}

void WriteQueue::begin(WritingPtr writing, Locked& locked) noexcept {
  TensorRecord& record = *table_.record_of(writing->id);
  ++record.drive.writes_in_flight;
  context_.writes.begin(writing->half);
  context_.operation_begun();
  memory_.update_use(record);
  locked.send(std::move(writing));
}

void WriteQueue::begin_arrival(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept {
  writing->fill = record.memory.begin(Presence::kArriving);
  record.memory.replaced = writing->before;
  record.memory.block = writing->block;
  memory_.update_use(record);
  context_.writes.begin(writing->half);
  context_.operation_begun();
  writing->source = writing->block->span();
  locked.send(std::move(writing));
}

}  // namespace penstock
