#include "swap/engine/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "alloc/bytes.h"
#include "swap/engine/completion_error.h"
#include "swap/log.h"

namespace penstock {

void Writer::send(const WritingPtr& writing) noexcept {
  Result<void> sent = unless_out_of_memory([&]() -> Result<void> {
    PENSTOCK_TRY(reserve_space(*writing));
    return submit(writing);
  });
  if (sent.has_error()) {
    finished(writing, std::move(sent).error());
  }
}

Result<void> Writer::reserve_space(Writing& writing) const {
  Result<StoredTensor> reserved =
      writing.store->reserve(writing.number, writing.generation, writing.bytes, writing.refused);
  if (reserved.has_error()) {
    Error error = std::move(reserved).error();
    error.message = fmt::format("cannot write tensor '{}' ({}): {}", writing.info->name,
                                format_bytes(writing.bytes), error.message);
    error.tensor = writing.info->name;
    return error;
  }
  StoredTensor stored = std::move(reserved).value();
  stored.identity.level = static_cast<std::uint64_t>(context_.options.config.integrity);
  writing.stored = writing.store->hold(stored);
  return {};
}

/// Errors: nothing has begun, and finished() is not called.
Result<void> Writer::submit(const WritingPtr& writing) {
  auto done = [this, engine = context_.hold(), writing](Result<std::uint64_t> written) {
    if (written.has_value()) {
      writing->stored->identity.checksum = *written;
    }
    finished(writing, error_of(std::move(written)));
  };
  if (writing->source.empty()) {  // straight from a device
    const OnDrive drive{&writing->store->file(*writing->stored), *writing->stored,
                        IoPriority::kBehind};
    (*devices_.of(*writing->device))
        ->move({writing->info, *writing->device, drive}, std::move(done));
    return {};
  }
  const IoPriority priority = writing->block ? IoPriority::kBehind : IoPriority::kDemand;
  const Result<std::shared_ptr<HostTransfer>> transfer =
      HostTransfer::of_write(reader_.place_of(*writing->store, *writing->stored, writing->info),
                             writing->source, priority, std::move(done));
  PENSTOCK_TRY(transfer);
  HostTransfer::start(*transfer);
  return {};
}

void Writer::finished(const WritingPtr& ended, std::optional<Error> error) noexcept {
  if (error && goes_elsewhere(ended, *error)) {
    return;
  }
  conclude(*ended, std::move(error));
  // In flight until now, since a flush() says that space and memory have come back, too.
  const BriefLock lock(context_);
  context_.writes.end(ended->half);
  context_.operation_ended();
}

void Writer::conclude(Writing& writing, std::optional<Error> error) noexcept {
  {
    Locked locked(context_);
    TensorRecord* const record = table_.record_of(writing.id);
    if (record != nullptr && !error) {
      error = stage(*record, writing);
    }
    if (!error || !rescue_.may_stay_in_ram(writing, *error)) {
      end(writing, std::move(error), false, locked);
      return;
    }
  }
  // The write still counts as in flight, so that gets wait for what becomes of it.
  Result<std::shared_ptr<Block>> copy = writing.block;
  if (!writing.block) {
    copy = unless_out_of_memory([&] { return memory_.resident_copy(writing.source); });
  }
  Locked locked(context_);
  const bool is_kept = rescue_.keep_in_ram(writing, *error, std::move(copy), locked);
  end(writing, std::move(error), is_kept, locked);
}

/// It is on its drive, or `is_kept` in RAM, or neither.
void Writer::end(Writing& writing, std::optional<Error> error, bool is_kept,
                 Locked& locked) noexcept {
  TensorRecord* const record = table_.record_of(writing.id);
  if (record != nullptr) {
    --record->drive.writes_in_flight;
  }
  if (is_kept) {
    locked.fulfil(std::move(writing.ticket), std::nullopt);
  } else if (error) {
    rescue_.fail(record, writing, std::move(*error), locked);
  } else {
    count(writing);
    if (record != nullptr) {
      publish(*record, writing, locked);
    } else {
      error = table_.came_too_late(*writing.store, *writing.info);
    }
    locked.fulfil(std::move(writing.ticket), std::move(error));
  }
  if (record != nullptr) {
    serve_after(*record, locked);
    declarations_.undo(writing.id, locked);
  }
  locked.drop(std::move(writing.block));
  locked.drop(std::move(writing.before.block));
  locked.drop(std::move(writing.stored));
  locked.run_ahead();
}

void Writer::count(const Writing& writing) noexcept {
  context_.stats.tensor_write_bytes += writing.bytes;
  context_.stats.padding_bytes += writing.stored->extent.bytes - writing.bytes;
  if (writing.device) {
    context_.stats.from_device_bytes += writing.device->memory.bytes;
  }
}

/// What is whole on its drive can be published, if nothing newer is.
std::optional<Error> Writer::stage(const TensorRecord& record, const Writing& writing) noexcept {
  if (writing.generation <= record.drive.generation) {
    return std::nullopt;
  }
  Result<void> staged = unless_out_of_memory(
      [&]() PENSTOCK_NEEDS_LOCK { return writing.store->stage(*record.info, writing.stored); });
  if (staged.has_value()) {
    return std::nullopt;
  }
  return said(staged.error().code, [&] {
    Error error = staged.error();
    error.message =
        fmt::format("no room to publish tensor '{}': {}", writing.info->name, error.message);
    error.tensor = writing.info->name;
    return error;
  });
}

/// The content is whole on its drive: the older one is given up. Contents may arrive out of order.
void Writer::publish(TensorRecord& record, Writing& writing, Locked& locked) noexcept {
  if (writing.generation <= record.drive.generation) {
    return;
  }
  locked.drop(std::move(record.drive.stored));
  record.drive.stored = std::move(writing.stored);
  record.drive.generation = writing.generation;
  record.certain_generation = std::max(record.certain_generation, writing.generation);
  if (record.memory.is_current() && record.memory.generation < writing.generation) {
    memory_.drop(record, locked);  // a content that had been brought back meanwhile
  }
  if (!record.memory.is_current() || record.clean()) {
    record.drive.unwritten.reset();
  }
}

/// Gets that had to wait for a write; then the memory of a content that is safe and without
/// leases.
void Writer::serve_after(TensorRecord& record, Locked& locked) noexcept {
  if (record.drive.writes_in_flight == 0) {
    reader_.serve_again(record, std::exchange(record.gets.for_write, {}), locked);
  }
  if (!record.memory.is_current()) {
    return;
  }
  const bool is_kept = memory_.ahead().holds(record.id) || memory_.residency().holds(record.id);
  if (record.clean() && record.memory.block->leases == 0 && !is_kept) {
    memory_.drop(record, locked);
  } else {
    memory_.update_use(record);
  }
}

/// Another drive takes it, or RAM does, of a device's: then that write calls finished().
bool Writer::goes_elsewhere(const WritingPtr& writing, const Error& error) noexcept {
  const Result<bool> goes = unless_out_of_memory([&]() -> Result<bool> {
    return write_elsewhere(writing, error) ||
           (error.is_full() && rescue_.arrive_instead(writing, error));
  });
  return goes.has_value() && *goes;
}

/// A drive refused a content that is still there to be written: true if another drive takes it.
bool Writer::write_elsewhere(const WritingPtr& writing, const Error& error) {
  const int number = error.system_errno();
  if (number == 0 || number == ECANCELED || !writing->stored) {
    return false;
  }
  if (!error.is_full()) {
    writing->store->note_failure(*writing->stored);
  }
  writing->refused.push_back(writing->stored->drive);
  writing->stored.reset();
  if (reserve_space(*writing).has_error()) {
    return false;
  }
  log_decision(LogEvent::kRetry, writing->info->name, [&] {
    return fmt::format("drive {} takes it: {}", writing->stored->drive, error.message);
  });
  return submit(writing).has_value();
}

}  // namespace penstock
