// What becomes of contents that do not reach their drive: another drive, RAM, or an error that
// leaves the last good copy.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "alloc/bytes.h"
#include "swap/swap_engine_core.h"

namespace penstock {

using Presence = TensorRecord::Presence;

/// Another drive takes it, or RAM does, of a device's: then that tells how it ends.
bool SwapEngineCore::goes_elsewhere(const WritingPtr& writing, const Error& error) noexcept {
  const Result<bool> goes = unless_out_of_memory([&]() -> Result<bool> {
    return write_elsewhere(writing, error) || (error.is_full() && arrive_instead(writing, error));
  });
  return goes.has_value() && *goes;
}

/// A drive refused a content that is still there to be written: true if another drive takes it.
bool SwapEngineCore::write_elsewhere(const WritingPtr& writing, const Error& error) {
  const int number = error.system_errno();
  if (number == 0 || number == ECANCELED || !writing->stored) {
    return false;
  }
  if (!error.is_full()) {
    writing->store->note_failure(*writing->stored);
  }
  writing->refused.push_back(writing->stored->drive);
  writing->stored.reset();
  return reserve_space(*writing).has_value() && submit_write(writing).has_value();
}

/// A drive refused, or memory was short. The newest content stays in memory where it is in ours,
/// and the last one on a drive stays readable otherwise. The error goes to what waits for the
/// write, else it is said at the next call; of a row of failures the first.
void SwapEngineCore::write_failed(TensorRecord* record, Writing& writing, Error error,
                                  Locked& locked) noexcept {
  ++stats_.write_failures;
  if (record != nullptr) {
    bring_back(*record, writing);
    if (record->presence == Presence::kCurrent && !record->clean()) {
      record->unwritten = copy_of(error);
    }
  }
  if_memory_allows([&] { describe_failure(record, writing, error); });
  if (!untold_failure() && !failure_told_) {
    first_failure_ = {copy_of(error), writing.ticket};
  }
  locked.fulfil(std::move(writing.ticket), std::move(error));
}

void SwapEngineCore::describe_failure(const TensorRecord* record, const Writing& writing,
                                      Error& error) const {
  if (error.tensor.empty()) {
    error.message = fmt::format("cannot write tensor '{}' ({}): {}; free memory of this machine",
                                writing.info.name, format_bytes(writing.bytes), error.message);
    error.tensor = writing.info.name;
  }
  if (writing.block) {
    error.message += " (its content is still in memory)";
  } else if (record != nullptr && (record->stored || record->presence == Presence::kCurrent)) {
    error.message += " (its last good content is unchanged)";
  }
  if (error.is_full()) {
    error.message += fmt::format(
        "; free space there, add a path to penstock.paths, or raise ram_bytes "
        "({}) by {}",
        format_bytes(residency_.limit_bytes()), format_bytes(writing.bytes));
  }
}

/// A put failed, and what it was to replace is on no drive (its own write failed, or is under way):
/// the memory that holds it is the content again, unless a newer one has come meanwhile. One that
/// is on its way may still fail: it will have that older one to bring back.
void SwapEngineCore::bring_back(TensorRecord& record, const Writing& writing) noexcept {
  if (!writing.before.block || writing.before.generation < record.certain_generation) {
    return;
  }
  if (record.arriving && !record.replaced.block) {
    record.replaced = writing.before;
  }
  if (record.presence != Presence::kAbsent) {
    return;
  }
  record.block = writing.before.block;
  record.presence = Presence::kCurrent;
  record.memory_generation = writing.before.generation;
  update_use(record);
}

/// Room in RAM for a content that its drive has no room for, while there is no newer one. To be
/// asked again after the lock was open: a plan may have taken the claim away.
bool SwapEngineCore::claim_for_newest(const Writing& writing) {
  const TensorRecord* const record = record_of(writing.id);
  return record != nullptr && record->generation == writing.generation &&
         residency_.claim(to_number(writing.id), writing.bytes, Residency::Claim::kPlan);
}

/// It does not come there after all. A newer content may count on the claim by now.
void SwapEngineCore::give_up_claim(const Writing& writing) {
  const TensorRecord* const record = record_of(writing.id);
  if (record != nullptr && !record->block) {
    residency_.release(to_number(writing.id));
  }
}

/// Full drive: within ram_bytes the content stays in RAM instead. Claims the room.
bool SwapEngineCore::may_stay_in_ram(const Writing& writing, const Error& error) noexcept {
  const bool is_here = writing.block || !writing.source.empty();  // not on a device
  const Result<bool> claimed = unless_out_of_memory(
      [&]() -> Result<bool> { return error.is_full() && is_here && claim_for_newest(writing); });
  return claimed.has_value() && *claimed;
}

/// With a claim, which it gives up where it returns false. `copy` has the content's bytes.
bool SwapEngineCore::keep_in_ram(const Writing& writing, const Error& error,
                                 Result<std::shared_ptr<Block>> copy, Locked& locked) noexcept {
  std::optional<Error> why;
  const Result<bool> kept = unless_out_of_memory([&]() -> Result<bool> {
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
  record_of(writing.id)->unwritten = std::move(why);
  if_memory_allows(
      [&] { warn(fmt::format("{}; it is kept in RAM within ram_bytes", error.message)); });
  return true;
}

/// Where the write did not go out from memory of ours, `copy` is the content from now on.
void SwapEngineCore::bring_to_ram(const Writing& writing, std::shared_ptr<Block> copy,
                                  Locked& locked) noexcept {
  if (writing.block) {
    return;
  }
  TensorRecord* const record = record_of(writing.id);
  drop_memory(*record, locked);
  record->block = std::move(copy);
  record->presence = Presence::kCurrent;
  record->memory_generation = writing.generation;
  record->certain_generation = std::max(record->certain_generation, writing.generation);
}

}  // namespace penstock
