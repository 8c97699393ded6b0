#include "swap/engine/ahead_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "swap/log.h"

namespace penstock {

void AheadReader::prefetch(std::span<const TensorId> tensors) {
  Locked locked(context_);
  if_memory_allows([&]() PENSTOCK_NEEDS_LOCK {
    for (const TensorId tensor : tensors) {
      scheduler_.announce(tensor);
    }
  });
  locked.run_ahead();
}

/// What the scheduler sees of the engine. Lives while the lock is held.
class AheadReader::Environment final : public PrefetchEnvironment {
 public:
  Environment(AheadReader& reader, Locked& locked) : reader_(reader), locked_(locked) {}

  Answer begin_ahead(TensorId tensor, const Before& before) override {
    locked_.assert_held();
    TensorRecord* record = reader_.table_.record_of(tensor);
    if (record == nullptr || !record->memory.is_absent() || record->drive.writes_in_flight > 0 ||
        record->memory.updates > 0 || !record->drive.stored) {
      return Answer::kNothingToDo;
    }
    const std::optional<std::uint64_t> limit = reader_.context_.options.lookahead_bytes;
    if (limit && reader_.memory_.ahead().bytes() + record->bytes() > *limit) {
      return skip(*record, Answer::kStop, "lookahead_bytes allows no more");
    }
    const bool stays = record->place == Place::kRam && is_readable(*record) &&
                       reader_.memory_.residency().claim(
                           tensor, record->bytes(),
                           record->ruled ? Residency::Claim::kRule : Residency::Claim::kPlan);
    if (stays) {
      locked_.expect_fill();
      begin(*record);
      locked_.fill({record->id, record->memory.fill(), true});  // memory comes without the lock
      return Answer::kBegun;
    }
    if (std::ranges::find(refused_bytes_, record->bytes()) != refused_bytes_.end()) {
      return Answer::kNoRoom;
    }
    std::shared_ptr<Block> block = find_memory(*record, before);
    if (!block) {
      if (refused_bytes_.size() < kRefusedMax) {
        refused_bytes_.push_back(record->bytes());
      }
      return before.large_waits ? Answer::kNoRoom
                                : skip(*record, Answer::kNoRoom,
                                       "no slot is free, nor is pageable memory kept for reuse");
    }
    if (!is_readable(*record)) {
      locked_.drop(std::move(block));
      return Answer::kNothingToDo;
    }
    begin(*record);
    record->memory.block = std::move(block);
    reader_.memory_.update_use(*record);
    if (const Result<void> started = unless_out_of_memory([&]() PENSTOCK_NEEDS_LOCK {
          return reader_.reader_.start(*record, IoPriority::kAhead);
        });
        started.has_error()) {
      reader_.memory_.drop(*record, locked_);
      reader_.context_.operation_ended();
      return skip(*record, Answer::kNoRoom, started.error().message);
    }
    return Answer::kBegun;
  }

  std::uint64_t rewrite_slot_bytes(TensorId tensor) override {
    locked_.assert_held();
    const TensorRecord* const record = reader_.table_.record_of(tensor);
    return record != nullptr && record->memory.comes_in_slots ? record->bytes() : 0;
  }

  /// A put from the caller's memory leaves nothing in a slot; a get behind it reads it into one.
  std::uint64_t reread_slot_bytes(TensorId tensor) override {
    locked_.assert_held();
    const TensorRecord* const record = reader_.table_.record_of(tensor);
    const bool takes_slot = record != nullptr && !record->memory.comes_in_slots &&
                            record->place != Place::kRam &&
                            record->bytes() <= reader_.memory_.budgets().max_pinned_bytes;
    return takes_slot ? record->bytes() : 0;
  }

 private:
  /// Asks the file system, so only of what there is memory for: most of a scan finds none.
  bool is_readable(const TensorRecord& record) PENSTOCK_NEEDS_LOCK {
    const SwapStore& store = *reader_.table_.store_of(record);
    return !store.check_readable(*record.drive.stored, record.info->name).has_error();
  }

  /// Said of the first tensor that waits, once, not each time that something ends.
  Answer skip(const TensorRecord& record, Answer answer, std::string_view why) PENSTOCK_NEEDS_LOCK {
    if (log_enabled(LogLevel::kDebug) && reader_.skipped_ != record.id) {
      reader_.skipped_ = record.id;
      log_decision(LogEvent::kSkipAhead, record.info->name, [&]() PENSTOCK_NEEDS_LOCK {
        return fmt::format("{} are not read ahead now: {}", format_bytes(record.bytes()), why);
      });
    }
    return answer;
  }

  void begin(TensorRecord& record) PENSTOCK_NEEDS_LOCK {
    reader_.memory_.ahead().begin(record.id,
                                  record.bytes());  // the last thing that may fail
    record.memory.begin(Presence::kReading);
    reader_.context_.operation_begun();
  }

  std::shared_ptr<Block> find_memory(const TensorRecord& record, const Before& before)
      PENSTOCK_NEEDS_LOCK {
    auto block = std::make_shared<Block>(Buffer(), record.bytes());
    if (leaves_slots(record, before)) {
      if (std::optional<Buffer> slot = reader_.memory_.pool()->try_acquire_slot(record.bytes())) {
        block->buffer = std::move(*slot);
        return block;
      }
    }
    // Only pages that are there already: this may be the I/O thread, which fresh ones would hold
    // up.
    if (before.large_waits || reader_.memory_.kept_room_bytes() < record.bytes() ||
        !reader_.memory_.sources().overflow->retains(record.bytes())) {
      return nullptr;
    }
    Result<Buffer> pageable = reader_.memory_.pool()->acquire_overflow(record.bytes());
    if (pageable.has_error()) {
      return nullptr;
    }
    block->buffer = std::move(pageable).value();
    return block;
  }

  /// Contents that are made before the use take slots, and would have this one dropped for them.
  bool leaves_slots(const TensorRecord& record, const Before& before) PENSTOCK_NEEDS_LOCK {
    return before.slot_bytes == 0 ||
           reader_.memory_.ahead().bytes() + before.slot_bytes + record.bytes() <=
               reader_.memory_.budgets().max_pinned_bytes;
  }

  static constexpr std::size_t kRefusedMax = 16;

  AheadReader& reader_;
  Locked& locked_;
  boost::container::static_vector<std::uint64_t, kRefusedMax>
      refused_bytes_;  // sizes for which this scan has found no memory
};

void AheadReader::run() noexcept {
  Locked locked(context_);
  if (context_.closed || !memory_.planned()) {
    return;
  }
  Environment environment(*this, locked);
  if_memory_allows([&]() PENSTOCK_NEEDS_LOCK {
    scheduler_.run(environment);
    memory_.retain_pages();
  });
}

void AheadReader::fill(const FillRequest& request) noexcept {
  const std::optional<std::uint64_t> bytes = [&]() -> std::optional<std::uint64_t> {
    Locked locked(context_);
    const TensorRecord* const record = reader_.wanted(request);
    if (record == nullptr) {
      context_.operation_ended();
      return std::nullopt;
    }
    return record->bytes();
  }();
  if (!bytes) {
    return;
  }
  Result<std::shared_ptr<Block>> block =
      unless_out_of_memory([&] { return memory_.resident_block(*bytes); });
  Locked locked(context_);
  TensorRecord* const record = reader_.wanted(request);
  if (record == nullptr) {
    if (block.has_value()) {
      locked.drop(std::move(block).value());
    }
    context_.operation_ended();
    return;
  }
  if (block.has_value()) {
    record->memory.block = std::move(*block);
    memory_.update_use(*record);
    const bool is_awaited = !record->gets.for_read.empty();
    const IoPriority priority = is_awaited ? IoPriority::kDemand : IoPriority::kAhead;
    if (unless_out_of_memory([&]() PENSTOCK_NEEDS_LOCK {
          return reader_.start(*record, priority);
        }).has_value()) {
      return;
    }
  }
  log_decision(LogEvent::kSkipAhead, record->info->name, [&]() PENSTOCK_NEEDS_LOCK {
    return block.has_error() ? block.error().message : std::string("the read could not begin");
  });
  std::vector<WaitingGet> waiting = std::exchange(record->gets.for_read, {});
  memory_.drop(*record, locked);
  memory_.residency().release(request.tensor);
  context_.operation_ended();
  reader_.serve_again(*record, std::move(waiting), locked);  // gets find memory, or say why not
}

}  // namespace penstock
