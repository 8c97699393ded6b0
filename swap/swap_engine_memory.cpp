// Where the engine's memory comes from: residents, the pool, what was read ahead and not used.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ranges>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "swap/swap_engine_core.h"

namespace penstock {

/// Memory for one content, found in the order: resident (if the tensor may stay), a free slot, a
/// slot of what was read ahead for the farthest future (not where retained pages would do), then
/// the pool's ladder. Blocks; on the I/O thread, which must not wait for itself, the ladder is
/// pageable memory at once. Errors: the tensor is not known; no memory.
Result<std::shared_ptr<Block>> SwapEngineCore::obtain_block(TensorId tensor) {
  std::uint64_t bytes = 0;
  bool is_resident = false;
  {
    Locked locked(mutex_, *this);
    TensorRecord* const record = record_of(tensor);
    if (record == nullptr) {
      return unknown(tensor);
    }
    bytes = record->bytes;
    is_resident = claim_residency(*record, locked);
    if (!is_resident) {
      if (std::shared_ptr<Block> block = free_slot_block(*record, locked)) {
        return block;
      }
    }
  }
  return is_resident ? resident_block(bytes) : ladder_block(tensor, bytes);
}

/// In a slot that is free now, or that what was read ahead gives up. Null: there is none.
std::shared_ptr<Block> SwapEngineCore::free_slot_block(const TensorRecord& record, Locked& locked) {
  auto block = std::make_shared<Block>(Buffer(), record.bytes);
  std::optional<Buffer> slot = pool_->try_acquire_slot(record.bytes);
  // Pages that are there already cost nothing; what was read ahead would have to be read again.
  if (!slot && !(planned_ && overflow_source_->retains(record.bytes))) {
    slot = take_over_ahead(record.bytes, locked);
  }
  if (!slot) {
    return nullptr;
  }
  block->buffer = std::move(*slot);
  hold(*block, record);
  note_memory_peak();
  return block;
}

/// From the pool, which may wait for a slot; before there is a plan, and on the I/O thread,
/// pageable.
Result<std::shared_ptr<Block>> SwapEngineCore::ladder_block(TensorId tensor, std::uint64_t bytes) {
  const Waiting::Clock::time_point begin = waiting_->now();
  const bool may_wait = !on_own_thread();
  auto block = std::make_shared<Block>(Buffer(), bytes);
  block->precedes_plan = !planned_;
  if (may_wait) {
    wait_for_write_back(bytes);
  }
  Result<Buffer> buffer =
      may_wait && !block->precedes_plan ? pool_->acquire(bytes) : pool_->acquire_overflow(bytes);
  PENSTOCK_TRY(buffer);
  block->buffer = std::move(*buffer);
  const std::lock_guard lock(mutex_);
  if (block->overflows() && !block->precedes_plan) {
    stats_.overflow_ns += ns_since(begin);
  }
  if (const TensorRecord* const record = record_of(tensor); record != nullptr) {
    hold(*block, *record);
  }
  note_memory_peak();
  return block;
}

/// Fresh pages can cost more than reading into them. Provided by the thread that wants the content,
/// they cost it no more than it waits anyway, and the drive works meanwhile; left to direct I/O,
/// they would hold up the one thread that serves all of it.
void SwapEngineCore::provide_pages(const Block& block) {
  if (!block.overflows() || on_own_thread()) {
    return;
  }
  const Waiting::Clock::time_point begin = waiting_->now();
  populate_pages(block.span());
  const std::lock_guard lock(mutex_);
  stats_.overflow_ns += block.precedes_plan ? 0 : ns_since(begin);
}

std::uint64_t SwapEngineCore::ns_since(Waiting::Clock::time_point begin) const {
  const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(waiting_->now() - begin);
  return static_cast<std::uint64_t>(passed.count());
}

/// Memory for a content that may stay. Maps memory: never called with the lock held.
Result<std::shared_ptr<Block>> SwapEngineCore::resident_block(std::uint64_t bytes) const {
  Result<Memory> memory = resident_source_->allocate(bytes);
  if (memory.has_error()) {
    return std::move(memory).error();
  }
  return std::make_shared<Block>(std::move(memory).value(), bytes);
}

/// The same with the bytes of `source`, which stay as they are meanwhile.
Result<std::shared_ptr<Block>> SwapEngineCore::resident_copy(
    std::span<const std::byte> source) const {
  Result<std::shared_ptr<Block>> block = resident_block(source.size());
  if (block.has_value()) {
    std::memcpy(block.value()->data(), source.data(), source.size());
  }
  return block;
}

/// Whether the tensor may stay in RAM; makes room by sending weaker claims to their drives.
bool SwapEngineCore::claim_residency(TensorRecord& record, Locked& locked) {
  using Claim = Residency::Claim;
  if (record.info.role == Role::kGradient) {
    return false;
  }
  const bool by_rule = record.ruled == Place::kRam;
  const bool by_plan = planned_ ? record.place == Place::kRam : !record.ruled.has_value();
  if (!by_rule && !by_plan) {
    return false;
  }
  const Claim claim = by_rule ? Claim::kRule : planned_ ? Claim::kPlan : Claim::kSpare;
  const std::uint64_t key = to_number(record.id);
  const std::uint64_t bytes = record.bytes;
  if (residency_.claim(key, bytes, claim)) {
    return true;
  }
  for (const Residency::Key victim : residency_.victims(bytes, claim)) {
    demote(TensorId{victim}, locked);
  }
  if (residency_.claim(key, bytes, claim)) {
    return true;
  }
  if (by_rule && !budgets_.ram_given) {
    residency_.set_limit_bytes(residency_.held_bytes() + bytes);
    return residency_.claim(key, bytes, claim);
  }
  return false;
}

/// Takes a resident's claim away and sends its content to a drive; while somebody changes it in
/// place, that has to wait until they are done.
void SwapEngineCore::demote(TensorId tensor, Locked& locked) {
  TensorRecord* record = record_of(tensor);
  if (record != nullptr) {
    record->leaves = record->block && record->block->updates > 0;
    if (record->leaves) {
      return;
    }
  }
  const bool is_current = record != nullptr && record->presence == TensorRecord::Presence::kCurrent;
  const bool is_written = is_current && !record->clean() && record->writes_in_flight == 0;
  WritingPtr writing = is_written ? make_writing(*record, nullptr) : nullptr;
  residency_.release(to_number(tensor));
  if (is_written) {
    write_memory(*record, std::move(writing), locked);
  } else if (is_current && record->clean() && record->block->leases == 0) {
    drop_memory(*record, locked);
  }
}

/// The slot of what was read ahead for the farthest use, if one fits `bytes`. It changes hands
/// without going back to the pool, which might unmap and wait for the I/O thread while the lock is
/// held.
std::optional<Buffer> SwapEngineCore::take_over_ahead(std::uint64_t bytes, Locked& locked) {
  std::vector<ReadAhead::Key> fitting;
  for (const ReadAhead::Key key : ahead_.in_order() | std::views::values) {
    const TensorRecord& record = *record_of(TensorId{key});
    if (record.presence == TensorRecord::Presence::kCurrent && record.block->buffer &&
        !record.block->overflows() && record.block->buffer.capacity() >= bytes &&
        record.block->buffer.capacity() - bytes <= record.block->buffer.capacity() / 8) {
      fitting.push_back(key);
    }
  }
  if (fitting.empty()) {
    return std::nullopt;
  }
  TensorRecord& farthest = *record_of(TensorId{scheduler_.farthest(fitting)});
  ++stats_.ahead_dropped;
  const std::shared_ptr<Block> given_up = farthest.block;
  drop_memory(farthest, locked);
  return std::move(given_up->buffer);
}

/// Pageable bytes that may be kept by choice now: read ahead, or freed and waiting for the next
/// request. The most that callers ever held at once (an optimizer's step) is memory that the
/// process has had. All of it is never exceeded, and half of it is left to the runtime, whose own
/// peak (the end of backward) comes when callers hold next to nothing here. One content may always
/// be kept.
std::uint64_t SwapEngineCore::kept_room_bytes() const {
  const std::uint64_t limit = std::min({std::max(held_overflow_max_ / 2, held_content_max_),
                                        held_overflow_max_, budgets_.quarter_bytes});
  const std::uint64_t used = pool_->stats().overflow_bytes;
  return std::min(limit - std::min(limit, ahead_overflow_bytes_),
                  held_overflow_max_ - std::min(held_overflow_max_, used));
}

/// Lets contents reach their drives before more pageable memory is taken than callers' own peak
/// asks for. Waits only while writes are in flight, so it always ends.
void SwapEngineCore::wait_for_write_back(std::uint64_t bytes) {
  Locked locked(mutex_, *this);
  locked.wait(*waiting_, changed_, [this, bytes] {
    const std::uint64_t used = pool_->stats().overflow_bytes;
    const std::uint64_t held =
        used - std::min(used, ahead_overflow_bytes_ + behind_overflow_bytes_);
    const std::uint64_t allowed = std::max(held_overflow_max_, held + bytes) + kWriteBackSlackBytes;
    return behind_overflow_bytes_ == 0 || used + bytes <= allowed;
  });
}

}  // namespace penstock
