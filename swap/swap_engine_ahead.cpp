// How contents come from drives before they are asked for.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "swap/swap_engine_core.h"

namespace penstock {

using Presence = TensorRecord::Presence;

void SwapEngineCore::prefetch(std::span<const TensorId> tensors) {
  {
    Lock lock(mutex_);
    if_memory_allows([&] {
      for (const TensorId tensor : tensors) {
        scheduler_.announce(to_number(tensor));
      }
    });
  }
  run_ahead();
}

/// What the scheduler sees of the engine. Lives while the lock is held.
class SwapEngineCore::Surroundings final : public PrefetchSurroundings {
 public:
  Surroundings(SwapEngineCore& core, Outbox& outbox) : core_(core), outbox_(outbox) {}

  /// A read that has begun but for its memory, which is to come without the lock.
  struct Resident {
    TensorId tensor{};
    std::uint64_t fill = 0;
  };
  /// Each is handed over; to be called until there is none.
  std::optional<Resident> next_resident() noexcept {
    return next_ < residents_.size() ? std::optional(residents_[next_++]) : std::nullopt;
  }

  Answer begin_ahead(AccessTrace::Key key, bool large_waits) override {
    TensorRecord* record = core_.record_of(TensorId{key});
    if (record == nullptr || record->presence != Presence::kAbsent ||
        record->writes_in_flight > 0 || record->updates > 0 || !record->stored) {
      return Answer::kNothingToDo;
    }
    const SwapStore& store = *core_.namespaces_.at(record->space).store;
    if (store.check_readable(*record->stored, record->info.name).has_error()) {
      return Answer::kNothingToDo;
    }
    const std::optional<std::uint64_t> limit = core_.options_.lookahead_bytes;
    if (limit && core_.ahead_.bytes() + record->bytes > *limit) {
      return Answer::kStop;
    }
    const bool stays =
        record->place == Place::kRam &&
        core_.residency_.claim(key, record->bytes,
                               record->ruled ? Residency::Claim::kRule : Residency::Claim::kPlan);
    if (stays) {
      residents_.reserve(residents_.size() + 1);
      begin(*record);
      residents_.push_back({record->id, record->fill});
      return Answer::kBegun;
    }
    std::shared_ptr<Block> block = find_memory(*record, large_waits);
    if (!block) {
      return Answer::kNoRoom;
    }
    begin(*record);
    record->block = std::move(block);
    core_.update_use(*record);
    if (unless_out_of_memory([&] {
          return core_.start_read(*record, IoPriority::kAhead);
        }).has_error()) {
      core_.drop_memory(*record, outbox_);
      core_.operation_ended();
      return Answer::kNoRoom;
    }
    return Answer::kBegun;
  }

 private:
  void begin(TensorRecord& record) {
    core_.ahead_.begin(to_number(record.id), record.bytes);  // the last thing that may fail
    record.presence = Presence::kFilling;
    ++record.fill;
    core_.operation_begun();
  }

  std::shared_ptr<Block> find_memory(const TensorRecord& record, bool large_waits) {
    auto block = std::make_shared<Block>(Buffer(), record.bytes);
    if (std::optional<Buffer> slot = core_.pool_->try_acquire_slot(record.bytes)) {
      block->buffer = std::move(*slot);
      return block;
    }
    // Only pages that are there already: this may be the I/O thread, which fresh ones would hold
    // up.
    if (large_waits || core_.kept_room_bytes() < record.bytes ||
        !core_.overflow_source_->retains(record.bytes)) {
      return nullptr;
    }
    Result<Buffer> pageable = core_.pool_->acquire_overflow(record.bytes);
    if (pageable.has_error()) {
      return nullptr;
    }
    block->buffer = std::move(pageable).value();
    return block;
  }

  SwapEngineCore& core_;
  Outbox& outbox_;
  std::vector<Resident> residents_;
  std::size_t next_ = 0;
};

/// Begins what is worth reading now; called without the lock after everything that may have made
/// room or told more of the future.
void SwapEngineCore::run_ahead() noexcept {
  Outbox outbox;
  Lock lock(mutex_);
  if (closed_ || !planned_) {
    return;
  }
  Surroundings surroundings(*this, outbox);
  if_memory_allows([&] {
    scheduler_.run(surroundings);
    overflow_source_->set_retained_limit_bytes(kept_room_bytes());
  });
  while (const auto resident = surroundings.next_resident()) {
    read_resident_ahead(resident->tensor, resident->fill, lock, outbox);
  }
}

/// Finds memory for a read ahead that has begun otherwise. Lets go of the lock, so the content may
/// have come from elsewhere, or be wanted by gets, or the tensor may be gone, when memory is found.
void SwapEngineCore::read_resident_ahead(TensorId tensor, std::uint64_t fill, Lock& lock,
                                         Outbox& outbox) noexcept {
  const auto wanted = [this, tensor, fill]() -> TensorRecord* {
    TensorRecord* const record = record_of(tensor);
    const bool is_filling =
        record != nullptr && record->presence == Presence::kFilling && record->fill == fill;
    return is_filling ? record : nullptr;
  };
  TensorRecord* record = wanted();
  if (record == nullptr) {  // since the one before let go of the lock
    operation_ended();
    return;
  }
  Result<std::shared_ptr<Block>> block =
      unless_out_of_memory([&, bytes = record->bytes] { return resident_block(bytes, lock); });
  record = wanted();
  if (record == nullptr) {
    if (block.has_value()) {
      outbox.drop(std::move(block).value());
    }
    operation_ended();
    return;
  }
  if (block.has_value()) {
    record->block = std::move(block).value();
    update_use(*record);
    const bool is_awaited = !record->waiting_for_read.empty();
    const IoPriority priority = is_awaited ? IoPriority::kDemand : IoPriority::kAhead;
    if (unless_out_of_memory([&] { return start_read(*record, priority); }).has_value()) {
      return;
    }
  }
  std::vector<WaitingGet> waiting = std::exchange(record->waiting_for_read, {});
  drop_memory(*record, outbox);
  residency_.release(to_number(tensor));
  operation_ended();
  serve_again(tensor, std::move(waiting), lock, outbox);  // gets find memory, or say why not
}

}  // namespace penstock
