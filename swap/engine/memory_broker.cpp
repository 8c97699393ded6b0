#include "swap/engine/memory_broker.h"

#include <fmt/format.h>

#include <ranges>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/size_class.h"
#include "swap/log.h"

namespace penstock {

void MemoryBroker::update_ended(LeaseToken& token) noexcept {
  const BriefLock lock(context_);
  EngineMemory::end_changes(token, table_.record_of(token.tensor()));
}

void MemoryBroker::lease_ended(LeaseToken& token) noexcept {
  Locked locked(context_);
  Block& block = *token.block();
  PENSTOCK_CHECK(block.leases > 0, "tensor {} returned once too often", to_number(token.tensor()));
  TensorRecord* const record = table_.record_of(token.tensor());
  EngineMemory::end_changes(token, record);
  if (--block.leases == 0) {
    block.held = {};
  }
  if (record != nullptr && record->memory.block == token.block()) {
    end_use(*record, locked);
  }
  locked.drop(token.give_up_block());  // before what may read into it is looked for
  locked.run_ahead();
}

/// A lease on what is in memory has ended.
void MemoryBroker::end_use(TensorRecord& record, Locked& locked) noexcept {
  const bool is_changed = record.memory.block->updates > 0;
  if (record.memory.block->leases == 0) {
    const bool is_needed = record.drive.writes_in_flight > 0 || !record.clean() ||
                           memory_.residency().holds(record.id);
    if (is_needed) {
      memory_.update_use(record);
    } else {
      memory_.drop(record, locked);
    }
  }
  if (record.memory.leaves && !is_changed && !context_.closed) {
    if_memory_allows([&]() PENSTOCK_NEEDS_LOCK { demote(record, locked); });
  }
}

Result<std::shared_ptr<Block>> MemoryBroker::obtain(TensorId tensor) {
  Result<Found> found = before_ladder(tensor);
  PENSTOCK_TRY(found);
  return found->block ? std::move(found->block) : from_ladder(tensor, found->bytes);
}

Result<std::shared_ptr<Block>> MemoryBroker::obtain_now(TensorId tensor) {
  Result<Found> found = before_ladder(tensor);
  PENSTOCK_TRY(found);
  const bool is_found = found->block || would_wait(found->bytes);
  return is_found ? std::move(found->block) : from_ladder(tensor, found->bytes);
}

Result<MemoryBroker::Found> MemoryBroker::before_ladder(TensorId tensor) {
  Found found;
  bool is_resident = false;
  {
    Locked locked(context_);
    TensorRecord* const record = table_.record_of(tensor);
    if (record == nullptr) {
      return table_.unknown(tensor);
    }
    found.bytes = record->bytes();
    is_resident = claim_residency(*record, locked);
    if (!is_resident) {
      found.block = free_slot(*record, locked);
    }
  }
  if (is_resident) {
    Result<std::shared_ptr<Block>> block = memory_.resident_block(found.bytes);
    PENSTOCK_TRY(block);
    found.block = std::move(*block);
  }
  return found;
}

/// In a slot that is free now, or that what was read ahead gives up. Null: there is none.
std::shared_ptr<Block> MemoryBroker::free_slot(const TensorRecord& record, Locked& locked) {
  auto block = std::make_shared<Block>(Buffer(), record.bytes());
  std::optional<Buffer> slot = memory_.pool()->try_acquire_slot(record.bytes());
  // Pages that are there already cost nothing; what was read ahead would have to be read again.
  if (!slot && !(memory_.planned() && memory_.sources().overflow->retains(record.bytes()))) {
    slot = take_over_ahead(record, locked);
  }
  if (!slot) {
    return nullptr;
  }
  block->buffer = std::move(*slot);
  memory_.hold(*block, record);
  memory_.note_peak();
  return block;
}

/// From the pool, which may wait for a slot; before there is a plan, and on the I/O thread,
/// pageable.
Result<std::shared_ptr<Block>> MemoryBroker::from_ladder(TensorId tensor, std::uint64_t bytes) {
  const Waiting::Clock::time_point begin = context_.waiting->now();
  const bool may_wait = !devices_.on_own_thread();
  auto block = std::make_shared<Block>(Buffer(), bytes);
  block->precedes_plan = !memory_.planned();
  if (may_wait) {
    wait_for_write_back(bytes);
  }
  Result<Buffer> buffer = may_wait && !block->precedes_plan
                              ? memory_.pool()->acquire(bytes)
                              : memory_.pool()->acquire_overflow(bytes);
  PENSTOCK_TRY(buffer);
  block->buffer = std::move(*buffer);
  const BriefLock lock(context_);
  if (block->overflows() && !block->precedes_plan) {
    context_.stats.overflow_ns += memory_.ns_since(begin);
  }
  if (const TensorRecord* const record = table_.record_of(tensor); record != nullptr) {
    memory_.hold(*block, *record);
    if (block->overflows()) {
      log_decision(LogEvent::kFallback, record->info->name, [&]() PENSTOCK_NEEDS_LOCK {
        return fmt::format("pageable memory for {}: {}", format_bytes(bytes),
                           block->precedes_plan ? "there is no plan yet"
                           : may_wait           ? "no pinned slot is free"
                                                : "this thread must not wait for a pinned slot");
      });
    }
  }
  memory_.note_peak();
  return block;
}

void MemoryBroker::provide_pages(const Block& block) {
  if (block.overflows() && !devices_.on_own_thread()) {
    memory_.provide_pages(block);
  }
}

bool MemoryBroker::claim_residency(TensorRecord& record, Locked& locked) {
  using Claim = Residency::Claim;
  if (record.info->role == Role::kGradient) {
    return false;
  }
  const bool by_rule = record.ruled == Place::kRam;
  const bool by_plan = memory_.planned() ? record.place == Place::kRam : !record.ruled.has_value();
  if (!by_rule && !by_plan) {
    return false;
  }
  const Claim claim = by_rule ? Claim::kRule : memory_.planned() ? Claim::kPlan : Claim::kSpare;
  const std::uint64_t bytes = record.bytes();
  if (memory_.residency().claim(record.id, bytes, claim)) {
    return true;
  }
  for (const TensorId victim : memory_.residency().victims(bytes, claim)) {
    if (TensorRecord* const weaker = table_.record_of(victim); weaker != nullptr) {
      log_decision(LogEvent::kEvict, weaker->info->name, [&]() PENSTOCK_NEEDS_LOCK {
        return fmt::format("{} of RAM go to '{}', whose claim is stronger",
                           format_bytes(weaker->bytes()), record.info->name);
      });
      demote(*weaker, locked);
    }
  }
  if (memory_.residency().claim(record.id, bytes, claim)) {
    return true;
  }
  if (by_rule && !memory_.budgets().ram_given) {
    memory_.residency().set_limit_bytes(memory_.residency().held_bytes() + bytes);
    return memory_.residency().claim(record.id, bytes, claim);
  }
  if (memory_.residency().limit_bytes() > 0) {
    log_decision(LogEvent::kFallback, record.info->name, [&]() PENSTOCK_NEEDS_LOCK {
      return fmt::format("not kept in RAM: ram_bytes ({}) has no room for {}",
                         format_bytes(memory_.residency().limit_bytes()), format_bytes(bytes));
    });
  }
  return false;
}

void MemoryBroker::demote(TensorRecord& record, Locked& locked) {
  record.memory.leaves = record.memory.block && record.memory.block->updates > 0;
  if (record.memory.leaves) {
    return;
  }
  const bool is_current = record.memory.is_current();
  const bool is_written = is_current && !record.clean() && record.drive.writes_in_flight == 0;
  WritingPtr writing = is_written ? writes_.make(record, nullptr) : nullptr;
  memory_.residency().release(record.id);
  if (is_written) {
    writes_.write_memory(record, std::move(writing), locked);
  } else if (is_current && record.clean() && record.memory.block->leases == 0) {
    memory_.drop(record, locked);
  }
}

/// The slot of what was read ahead for the farthest use, if one fits `taker`. It changes hands
/// without going back to the pool, which might unmap and wait for the I/O thread while the lock is
/// held.
std::optional<Buffer> MemoryBroker::take_over_ahead(const TensorRecord& taker, Locked& locked) {
  const std::uint64_t bytes = taker.bytes();
  std::vector<TensorId> fitting;
  for (const TensorId tensor : memory_.ahead().in_order() | std::views::values) {
    const TensorRecord& record = *table_.record_of(tensor);
    if (record.memory.is_in_slot() && serves(record.memory.block->buffer.capacity(), bytes)) {
      fitting.push_back(tensor);
    }
  }
  if (fitting.empty()) {
    return std::nullopt;
  }
  TensorRecord& farthest = *table_.record_of(scheduler_.farthest(fitting));
  ++context_.stats.ahead_dropped;
  log_decision(LogEvent::kEvict, farthest.info->name, [&]() PENSTOCK_NEEDS_LOCK {
    return fmt::format("read ahead for later than any other: its slot goes to '{}' ({})",
                       taker.info->name, format_bytes(bytes));
  });
  const std::shared_ptr<Block> given_up = farthest.memory.block;
  memory_.drop(farthest, locked);
  return std::move(given_up->buffer);
}

/// Lets contents reach their drives before more pageable memory is taken than callers' own peak
/// asks for. Waits only while writes are in flight, so it always ends.
void MemoryBroker::wait_for_write_back(std::uint64_t bytes) {
  Locked locked(context_);
  locked.stall([this, bytes]() PENSTOCK_NEEDS_LOCK { return !awaits_write_back(bytes); });
}

bool MemoryBroker::awaits_write_back(std::uint64_t bytes) const {
  const std::uint64_t used = memory_.sources().overflow->lent_bytes();
  return memory_.account().should_wait_for_writes(used, bytes);
}

bool MemoryBroker::would_wait(std::uint64_t bytes) {
  if (memory_.planned() && memory_.pool()->would_wait(bytes)) {
    return true;
  }
  const BriefLock lock(context_);
  return awaits_write_back(bytes);
}

}  // namespace penstock
