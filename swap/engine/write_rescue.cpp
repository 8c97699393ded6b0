#include "swap/engine/write_rescue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "alloc/bytes.h"
#include "swap/log.h"

namespace penstock {

void WriteRescue::fail(TensorRecord* record, Writing& writing, Error error,
                       Locked& locked) noexcept {
  ++context_.stats.write_failures;
  if (record != nullptr) {
    bring_back(*record, writing);
    if (record->memory.is_current() && !record->clean()) {
      record->drive.unwritten = copy_of(error);
    }
  }
  if_memory_allows([&]() PENSTOCK_NEEDS_LOCK { describe(record, writing, error); });
  log_decision(LogEvent::kRefuse, writing.info->name, [&] { return error.message; });
  failures_.note(error, writing.ticket, writing.store);
  locked.fulfil(std::move(writing.ticket), std::move(error));
}

void WriteRescue::describe(const TensorRecord* record, const Writing& writing, Error& error) const {
  if (error.tensor.empty()) {
    error.message = fmt::format("cannot write tensor '{}' ({}): {}; free memory of this machine",
                                writing.info->name, format_bytes(writing.bytes), error.message);
    error.tensor = writing.info->name;
  }
  if (writing.block) {
    error.message += " (its content is still in memory)";
  } else if (record != nullptr && (record->drive.stored || record->memory.is_current())) {
    error.message += " (its last good content is unchanged)";
  }
  if (error.is_full()) {
    error.message +=
        fmt::format("; {}, add a path to penstock.paths, or raise ram_bytes ({}) by {}",
                    error.system_errno() == EFBIG ? "raise the limit on a file's size (ulimit -f)"
                                                  : "free space there",
                    format_bytes(memory_.residency().limit_bytes()), format_bytes(writing.bytes));
  }
}

/// A put failed, and what it was to replace is on no drive (its own write failed, or is under way):
/// the memory that holds it is the content again, unless a newer one has come meanwhile. One that
/// is on its way may still fail: it will have that older one to bring back.
void WriteRescue::bring_back(TensorRecord& record, const Writing& writing) noexcept {
  if (!writing.before.block || writing.before.generation < record.certain_generation) {
    return;
  }
  if (record.memory.is_arriving() && !record.memory.replaced.block) {
    record.memory.replaced = writing.before;
  }
  if (!record.memory.is_absent()) {
    return;
  }
  record.memory.block = writing.before.block;
  record.memory.become_current(writing.before.generation);
  memory_.update_use(record);
}

/// Room in RAM for a content that its drive has no room for, while there is no newer one. To be
/// asked again after the lock was open: a plan may have taken the claim away.
bool WriteRescue::claim_for_newest(const Writing& writing) {
  const TensorRecord* const record = table_.record_of(writing.id);
  return record != nullptr && record->generation == writing.generation &&
         memory_.residency().claim(writing.id, writing.bytes, Residency::Claim::kPlan);
}

/// It does not come there after all. A newer content may count on the claim by now.
void WriteRescue::give_up_claim(const Writing& writing) {
  const TensorRecord* const record = table_.record_of(writing.id);
  if (record != nullptr && !record->memory.block) {
    memory_.residency().release(writing.id);
  }
}

bool WriteRescue::may_stay_in_ram(const Writing& writing, const Error& error) noexcept {
  const bool is_here = writing.block || !writing.source.empty();  // not on a device
  const Result<bool> claimed = unless_out_of_memory([&]() PENSTOCK_NEEDS_LOCK -> Result<bool> {
    return error.is_full() && is_here && claim_for_newest(writing);
  });
  return claimed.has_value() && *claimed;
}

bool WriteRescue::keep_in_ram(const Writing& writing, const Error& error,
                              Result<std::shared_ptr<Block>> copy, Locked& locked) noexcept {
  std::optional<Error> why;
  const Result<bool> kept = unless_out_of_memory([&]() PENSTOCK_NEEDS_LOCK -> Result<bool> {
    PENSTOCK_TRY(copy);
    why = error;
    return claim_for_newest(writing);
  });
  if (kept.has_error() || !*kept) {
    if (copy.has_value()) {
      locked.drop(std::move(*copy));
    }
    give_up_claim(writing);
    return false;
  }
  bring_to_ram(writing, std::move(*copy), locked);
  table_.record_of(writing.id)->drive.unwritten = std::move(why);
  say_kept(error);
  return true;
}

void WriteRescue::say_kept(const Error& error) const noexcept {
  if_memory_allows([&] {
    context_.warn(WarningCode::kKeptInRam,
                  fmt::format("{}; it is kept in RAM within ram_bytes", error.message));
  });
}

/// Where the write did not go out from memory of ours, `copy` is the content from now on.
void WriteRescue::bring_to_ram(const Writing& writing, std::shared_ptr<Block> copy,
                               Locked& locked) noexcept {
  if (writing.block) {
    return;
  }
  TensorRecord* const record = table_.record_of(writing.id);
  memory_.drop(*record, locked);
  record->memory.block = std::move(copy);
  record->memory.become_current(writing.generation);
  record->certain_generation = std::max(record->certain_generation, writing.generation);
}

bool WriteRescue::arrive_instead(const WritingPtr& arrival, const Error& error) {
  Writing& writing = *arrival;
  if (!writing.source.empty()) {
    return false;
  }
  {
    const BriefLock lock(context_);
    if (!claim_for_newest(writing)) {
      return false;
    }
  }
  Result<std::shared_ptr<Block>> block =
      unless_out_of_memory([&] { return memory_.resident_block(writing.bytes); });
  Locked locked(context_);
  if (block.has_error() || !claim_for_newest(writing)) {
    if (block.has_value()) {
      locked.drop(std::move(*block));
    }
    give_up_claim(writing);
    return false;
  }
  TensorRecord* const record = table_.record_of(writing.id);
  record->gets.expect_await_read();
  record->gets.await_read();
  say_kept(error);
  if (OlderContent older = WriteQueue::older_content(*record); older.block) {
    writing.before = std::move(older);
  }
  memory_.drop(*record, locked);
  --record->drive.writes_in_flight;
  context_.writes.end(writing.half);
  writing.block = std::move(*block);
  writes_.begin_arrival(*record, arrival, locked);
  context_.operation_ended();
  return true;
}

}  // namespace penstock
