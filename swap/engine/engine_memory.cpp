#include "swap/engine/engine_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "alloc/check.h"
#include "alloc/out_of_memory.h"

namespace penstock {

void EngineMemory::open(Sources sources, std::weak_ptr<LeaseKeeper> keeper) {
  sources_ = std::move(sources);
  keeper_ = std::move(keeper);
  BufferPoolOptions pool;
  pool.pinned = sources_.pinned;
  pool.overflow = sources_.overflow;
  pool.waiting = context_.stalls;
  pool.changed = [queue = context_.queue] { queue->notify(); };
  pool_ = std::make_unique<BufferPool>(std::move(pool));
}

Lease EngineMemory::lend(const std::shared_ptr<Block>& block, TensorRecord& record, Lent lent) {
  const Access access = lent == Lent::kToRead ? Access::kRead : Access::kUpdate;
  // The last thing that may fail: its end is counted from here on.
  Lease lease(
      std::make_shared<LeaseToken>(block, record.id, access, lent == Lent::kToUpdate, keeper_));
  ++block->leases;
  block->updates += lent == Lent::kToRead ? 0U : 1U;
  record.memory.updates += lent == Lent::kToUpdate ? 1U : 0U;
  hold(*block, record);
  if (block->overflows()) {
    account_.note_content(block->buffer.capacity());
  }
  update_use(record);
  return lease;
}

void EngineMemory::end_changes(LeaseToken& token, TensorRecord* record) noexcept {
  if (!token.changes()) {
    return;
  }
  token.end_changes();
  --token.block()->updates;
  if (token.of_content() && record != nullptr) {
    --record->memory.updates;
  }
}

void EngineMemory::drop(TensorRecord& record, Locked& locked) noexcept {
  if (record.memory.block) {
    account_.count(*record.memory.block, OverflowUse::kHeld);
    locked.drop(std::move(record.memory.block));
    record.memory.block.reset();
  }
  ahead_.end(record.id);
  locked.drop(std::move(record.memory.replaced.block));
  record.memory.replaced.block.reset();
  record.memory.become_absent();
  record.memory.reading.reset();
}

void EngineMemory::update_use(TensorRecord& record) noexcept {
  if (!record.memory.block || !record.memory.block->buffer) {
    return;
  }
  Block& block = *record.memory.block;
  const bool behind = (record.drive.writes_in_flight > 0 || record.memory.is_arriving()) &&
                      block.leases == 0 && !residency_.holds(record.id);
  if (behind) {
    block.buffer.expect_return();  // it comes back by itself when the write is done
  } else {
    block.buffer.expect_no_return();
  }
  account_.count(block, ahead_.holds(record.id) ? OverflowUse::kAhead
                        : behind                ? OverflowUse::kBehind
                                                : OverflowUse::kHeld);
}

void EngineMemory::hold(Block& block, const TensorRecord& record) const noexcept {
  if (block.buffer && !block.held && !block.precedes_plan && record.ruled != Place::kStream) {
    if_memory_allows(
        [&]() PENSTOCK_NEEDS_LOCK { block.held = held_->hold(block.bytes, block.overflows()); });
  }
}

void EngineMemory::note_peak() {
  account_.note_peak(sources_.overflow->lent_bytes());
  context_.stats.resident_bytes_max =
      std::max(context_.stats.resident_bytes_max, residency_.held_bytes());
}

void EngineMemory::provide_pages(const Block& block) {
  const Waiting::Clock::time_point begin = context_.waiting->now();
  populate_pages(block.span());
  const BriefLock lock(context_);
  context_.stats.overflow_ns += block.precedes_plan ? 0 : ns_since(begin);
}

std::uint64_t EngineMemory::ns_since(Waiting::Clock::time_point begin) const {
  const auto passed =
      std::chrono::duration_cast<std::chrono::nanoseconds>(context_.waiting->now() - begin);
  return static_cast<std::uint64_t>(passed.count());
}

Result<std::shared_ptr<Block>> EngineMemory::resident_block(std::uint64_t bytes) const {
  Result<Memory> memory = sources_.resident->allocate(bytes);
  if (memory.has_error()) {
    return std::move(memory).error();
  }
  return std::make_shared<Block>(std::move(memory).value(), bytes);
}

Result<std::shared_ptr<Block>> EngineMemory::resident_copy(
    std::span<const std::byte> source) const {
  Result<std::shared_ptr<Block>> block = resident_block(source.size());
  if (block.has_value()) {
    std::memcpy(block.value()->data(), source.data(), source.size());
  }
  return block;
}

std::uint64_t EngineMemory::kept_room_bytes() const {
  return account_.kept_room(sources_.overflow->lent_bytes(), budgets_.quarter_bytes);
}

void EngineMemory::retain_pages() {
  sources_.overflow->set_limits(account_.retained(budgets_.quarter_bytes));
}

}  // namespace penstock
