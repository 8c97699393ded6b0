// How contents come from drives before they are asked for.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "swap/swap_engine_core.h"

namespace penstock {

using Presence = TensorRecord::Presence;

void SwapEngineCore::prefetch(std::span<const TensorId> tensors) {
  Locked locked(mutex_, *this);
  if_memory_allows([&] {
    for (const TensorId tensor : tensors) {
      scheduler_.announce(to_number(tensor));
    }
  });
  locked.run_ahead();
}

/// What the scheduler sees of the engine. Lives while the lock is held.
class SwapEngineCore::Surroundings final : public PrefetchSurroundings {
 public:
  Surroundings(SwapEngineCore& core, Locked& locked) : core_(core), locked_(locked) {}

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
      locked_.expect_fill();
      begin(*record);
      locked_.fill({record->id, record->fill, true});  // memory comes without the lock
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
      core_.drop_memory(*record, locked_);
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
  Locked& locked_;
};

/// Begins what is worth reading now; called without the lock after everything that may have made
/// room or told more of the future.
void SwapEngineCore::run_ahead() noexcept {
  Locked locked(mutex_, *this);
  if (closed_ || !planned_) {
    return;
  }
  Surroundings surroundings(*this, locked);
  if_memory_allows([&] {
    scheduler_.run(surroundings);
    overflow_source_->set_retained_limit_bytes(kept_room_bytes());
  });
}

/// Finds memory in RAM for a read ahead that has begun otherwise. The content may have come from
/// elsewhere, or be wanted by gets, or the tensor may be gone, when memory is found.
void SwapEngineCore::fill_ahead(const FillRequest& request) noexcept {
  const std::optional<std::uint64_t> bytes = [&]() -> std::optional<std::uint64_t> {
    Locked locked(mutex_, *this);
    const TensorRecord* const record = wanted(request);
    if (record == nullptr) {
      operation_ended();
      return std::nullopt;
    }
    return record->bytes;
  }();
  if (!bytes) {
    return;
  }
  Result<std::shared_ptr<Block>> block =
      unless_out_of_memory([&] { return resident_block(*bytes); });
  Locked locked(mutex_, *this);
  TensorRecord* const record = wanted(request);
  if (record == nullptr) {
    if (block.has_value()) {
      locked.drop(std::move(block).value());
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
  drop_memory(*record, locked);
  residency_.release(to_number(request.tensor));
  operation_ended();
  serve_again(request.tensor, std::move(waiting), locked);  // gets find memory, or say why not
}

}  // namespace penstock
