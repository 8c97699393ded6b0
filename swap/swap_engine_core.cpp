#include "swap/swap_engine_core.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "alloc/excerpt.h"
#include "alloc/out_of_memory.h"
#include "alloc/page_source.h"
#include "alloc/pinned_source.h"
#include "swap/log.h"
#include "swap/numa_choice.h"
#include "swap/plan/tensor_name.h"

namespace penstock {
namespace {

// What is in flight at once, mostly: more than these come from the system each time.
constexpr std::uint64_t kTrailersKept = 64;

// Pinning is registering with the ring: the kernel then holds the pages and VmPin counts them.
// Locking them as well would count them twice; without a ring nothing here profits from locked
// pages.
PinHook ring_registration(const std::shared_ptr<IoQueue>& queue,
                          std::function<void(const std::string&)> warn) {
  const auto warned = std::make_shared<std::atomic<bool>>(false);
  return {
      .pin = [queue, warn = std::move(warn), warned](std::span<std::byte> memory) -> Result<void> {
        const Result<void> registered = queue->register_memory(memory);
        if (registered.has_error() && !warned->exchange(true)) {
          warn(fmt::format(
              "buffers are not registered with the I/O engine, which costs CPU time: {}",
              registered.error().message));
        }
        return {};
      },
      .unpin = [queue](std::span<std::byte> memory) { queue->unregister_memory(memory); },
  };
}

}  // namespace

SwapEngineCore::SwapEngineCore(SwapEngineOptions options) : options_(std::move(options)) {
  if (!options_.warn) {
    options_.warn = [](const std::string& sentence) { log_warning(sentence); };
  }
}

SwapEngineCore::~SwapEngineCore() {
  (void)close();
}

Result<std::shared_ptr<SwapEngineCore>> SwapEngineCore::make(SwapEngineOptions options) {
  std::shared_ptr<SwapEngineCore> core(new SwapEngineCore(std::move(options)));
  PENSTOCK_TRY(core->start());
  return core;
}

Result<void> SwapEngineCore::start() {
  const std::string& mode = options_.config.mode;
  if (mode != "scratch" && mode != "durable") {
    return fault(Fault::kConfiguration,
                 fmt::format("penstock.mode is '{}': it is 'scratch' or 'durable'", excerpt(mode)));
  }
  if (!moves_bytes(options_.config.engine)) {
    return fault(Fault::kConfiguration,
                 fmt::format("the I/O engine '{}' moves nothing: every tensor would be lost",
                             engine_kind_name(options_.config.engine)));
  }
  facts_ = {options_.mem_available_bytes.value_or(read_mem_available_bytes()),
            options_.ranks_on_node, 0};
  budgets_ = options_.budgets.value_or(resolve_budgets(options_.config, facts_));
  residency_.set_limit_bytes(budgets_.ram_bytes);

  IoEngineOptions io;
  io.block_bytes = options_.io_block_bytes;
  io.depth = options_.io_depth;
  Result<std::unique_ptr<IoQueue>> queue =
      options_.make_queue ? options_.make_queue(io) : IoQueue::start(options_.config.engine, io);
  if (queue.has_error()) {
    return std::move(queue).error();
  }
  queue_ = std::move(queue).value();
  Waiting::Step step;
  Waiting::Now now;
  if (queue_->caller_drives()) {
    step = [queue = queue_.get()] { return queue->step(); };
    now = [queue = queue_.get()] { return queue->now(); };
  }
  waiting_ = std::make_shared<Waiting>(step, now);
  stalls_ = std::make_shared<Waiting>(step, now);

  PageSourceOptions pages{.huge_pages = HugePages::kTransparent,
                          .numa = choose_numa_node(std::nullopt)};
  const std::shared_ptr<MemorySource> pageable =
      options_.pageable ? options_.pageable : PageSource::make(pages);
  resident_source_ = pageable;
  overflow_source_ = RecyclingSource::make(pageable);
  trailer_source_ = RecyclingSource::make(pageable);
  trailer_source_->set_retained_limit_bytes(kTrailersKept * StoreTransfer::kTrailerBytes);
  pages.huge_pages = HugePages::kReserved;
  pinned_pages_ = PageSource::make(std::move(pages));
  std::vector<PinHook> hooks = {ring_registration(queue_, options_.warn)};
  hooks.insert(hooks.end(), options_.pin_hooks.begin(), options_.pin_hooks.end());
  std::ranges::move(pinned_for(options_.devices), std::back_inserter(hooks));
  PENSTOCK_TRY(open_stagings(hooks));
  pinned_source_ = LimitingSource::make(PinnedSource::make(pinned_pages_, std::move(hooks)),
                                        budgets_.max_pinned_bytes, "max_pinned_bytes");
  BufferPoolOptions pool;
  pool.pinned = pinned_source_;
  pool.overflow = overflow_source_;
  pool.waiting = waiting_;
  pool_ = std::make_unique<BufferPool>(std::move(pool));
  return {};
}

Result<TensorId> SwapEngineCore::declare(NamespaceId space, TensorInfo info, bool to_put) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    return not_open();
  }
  const auto found = namespaces_.find(space);
  if (found == namespaces_.end()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("there is no namespace {}", to_number(space)));
  }
  PENSTOCK_TRY(check_tensor_name(info.name));
  if (!info.fits_63_bits() || info.bytes() == 0) {
    return fault(Fault::kWrongSize, fmt::format("tensor '{}' has {} bytes", info.name,
                                                info.fits_63_bits() ? "no" : "more than 2^63"));
  }
  if (found->second.by_name.contains(info.name)) {
    return fault(Fault::kInvalidArgument, fmt::format("tensor '{}' is declared already in '{}'",
                                                      info.name, found->second.name));
  }
  TensorRecord& record = add_record(space, std::move(info));
  record.number = found->second.store->number_tensor();
  record.is_to_be_put = to_put;
  return record.id;
}

/// Of a namespace that is there; the name is nobody's yet.
TensorRecord& SwapEngineCore::add_record(NamespaceId space, TensorInfo info) {
  auto record = std::make_unique<TensorRecord>();
  record->id = TensorId{next_tensor_++};
  record->space = space;
  record->bytes = info.bytes();
  record->info = std::move(info);
  find_rule(*record);
  auto& by_name = namespaces_.at(space).by_name;
  const auto named = by_name.emplace(record->info.name, record->id).first;
  try {
    return *records_.emplace(record->id, std::move(record)).first->second;
  } catch (const std::bad_alloc&) {
    by_name.erase(named);
    throw;
  }
}

void SwapEngineCore::find_rule(TensorRecord& record) const {
  record.ruled.reset();
  for (const TensorRule& rule : options_.config.tensors) {
    if (rule.matches(record.info.name, record.bytes)) {
      record.ruled = rule.place;
      return;
    }
  }
}

Result<void> SwapEngineCore::forget(TensorId tensor) {
  Locked locked(mutex_, *this);
  TensorRecord* record = record_of(tensor);
  if (record == nullptr) {
    return unknown(tensor);
  }
  Namespace& space = namespaces_.at(record->space);
  space.store->stage_removal(record->info.name);
  space.by_name.erase(record->info.name);
  erase_record(*record, locked);
  return {};
}

Result<void> SwapEngineCore::rename(TensorId tensor, std::string name) {
  const std::lock_guard lock(mutex_);
  TensorRecord* record = record_of(tensor);
  if (record == nullptr) {
    return unknown(tensor);
  }
  if (name == record->info.name) {
    return {};
  }
  PENSTOCK_TRY(check_tensor_name(name));
  Namespace& space = namespaces_.at(record->space);
  const auto [named, is_free] = space.by_name.emplace(name, tensor);
  if (!is_free) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("'{}' cannot be renamed to '{}': that is another tensor",
                             record->info.name, name));
  }
  try {
    space.store->stage_name(record->info.name, name);
  } catch (const std::bad_alloc&) {
    space.by_name.erase(named);
    throw;
  }
  space.by_name.erase(record->info.name);
  record->info.name = std::move(name);
  find_rule(*record);
  return {};
}

Result<void> SwapEngineCore::set_trained(TensorId tensor, bool is_trained) {
  const std::lock_guard lock(mutex_);
  TensorRecord* record = record_of(tensor);
  if (record == nullptr) {
    return unknown(tensor);
  }
  record->info.is_trained = is_trained;
  return {};
}

Result<TensorInfo> SwapEngineCore::info(TensorId tensor) const {
  const std::lock_guard lock(mutex_);
  const TensorRecord* record = record_of(tensor);
  if (record == nullptr) {
    return unknown(tensor);
  }
  return record->info;
}

std::optional<TensorId> SwapEngineCore::find(NamespaceId space, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = namespaces_.find(space);
  if (found == namespaces_.end()) {
    return std::nullopt;
  }
  const auto tensor = found->second.by_name.find(name);
  return tensor == found->second.by_name.end() ? std::nullopt : std::optional(tensor->second);
}

TensorRecord* SwapEngineCore::record_of(TensorId tensor) const {
  const auto found = records_.find(tensor);
  return found == records_.end() ? nullptr : found->second.get();
}

Error SwapEngineCore::unknown(TensorId tensor) const {
  if (closed_) {
    return not_open();
  }
  return fault(
      Fault::kUnknownTensor,
      fmt::format("there is no tensor {} (never declared, or forgotten)", to_number(tensor)));
}

Error SwapEngineCore::not_open() const {
  return fault(Fault::kClosed, "the swap engine is closed");
}

void SwapEngineCore::erase_record(TensorRecord& record, Locked& locked) noexcept {
  const Error gone =
      closed_ ? said(make_error_code(Fault::kClosed), [this] { return not_open(); })
              : said(make_error_code(Fault::kUnknownTensor), [&record] {
                  return fault(
                      Fault::kUnknownTensor,
                      fmt::format("tensor '{}' was forgotten while it was read", record.info.name));
                });
  fail_reads(record, gone, locked);
  for (WaitingGet& waiting : record.waiting_for_write) {
    locked.fulfil(std::move(waiting.ticket), copy_of(gone));
  }
  drop_memory(record, locked);
  residency_.release(to_number(record.id));
  locked.drop(std::move(record.stored));
  records_.erase(record.id);
}

Lease SwapEngineCore::lend(TensorRecord& record, Lent lent) {
  return lend(record.block, record, lent);
}

/// Of a tensor whose first put has failed; nothing where there is a content or one may come.
void SwapEngineCore::undo_declaration(TensorId tensor, Locked& locked) noexcept {
  TensorRecord* const record = record_of(tensor);
  if (record == nullptr || !record->is_to_be_put || record->stored || record->block ||
      record->presence != TensorRecord::Presence::kAbsent || record->writes_in_flight > 0) {
    return;
  }
  namespaces_.at(record->space).by_name.erase(record->info.name);
  erase_record(*record, locked);
}

/// Where it throws std::bad_alloc, nothing has changed.
Lease SwapEngineCore::lend(const std::shared_ptr<Block>& block, TensorRecord& record, Lent lent) {
  const Access access = lent == Lent::kToRead ? Access::kRead : Access::kUpdate;
  // The last thing that may fail: its end is counted from here on.
  Lease lease(std::make_shared<LeaseToken>(block, record.id, access, lent == Lent::kToUpdate,
                                           weak_from_this()));
  ++block->leases;
  block->updates += lent == Lent::kToRead ? 0U : 1U;
  record.updates += lent == Lent::kToUpdate ? 1U : 0U;
  hold(*block, record);
  if (block->overflows()) {
    held_content_max_ = std::max(held_content_max_, record.bytes);
  }
  update_use(record);
  return lease;
}

/// With the lock held: what the lease holds is not changed any more.
void SwapEngineCore::end_changes(LeaseToken& token) noexcept {
  if (!token.changes()) {
    return;
  }
  token.end_changes();
  --token.block()->updates;
  TensorRecord* const record = record_of(token.tensor());
  if (token.of_content() && record != nullptr) {
    --record->updates;
  }
}

void SwapEngineCore::update_ended(LeaseToken& token) noexcept {
  Locked locked(mutex_, *this);
  end_changes(token);
}

void SwapEngineCore::lease_ended(LeaseToken& token) noexcept {
  Locked locked(mutex_, *this);
  Block& block = *token.block();
  PENSTOCK_CHECK(block.leases > 0, "tensor {} returned once too often", to_number(token.tensor()));
  end_changes(token);
  if (--block.leases == 0) {
    block.held = {};
  }
  TensorRecord* record = record_of(token.tensor());
  if (record == nullptr || record->block != token.block()) {
    return;
  }
  const bool unused = block.leases == 0 && record->writes_in_flight == 0;
  if (unused && record->clean() && !residency_.holds(to_number(record->id))) {
    drop_memory(*record, locked);
  } else if (block.leases == 0) {
    update_use(*record);
  }
  if (record->leaves && block.updates == 0 && !closed_) {
    if_memory_allows([&] { demote(record->id, locked); });
  }
  locked.run_ahead();
}

void SwapEngineCore::drop_memory(TensorRecord& record, Locked& locked) noexcept {
  if (record.block) {
    count_block(*record.block, OverflowUse::kHeld);
    locked.drop(std::move(record.block));
    record.block.reset();
  }
  ahead_.end(to_number(record.id));
  record.arriving = false;
  locked.drop(std::move(record.replaced.block));
  record.replaced.block.reset();
  record.memory_generation = 0;
  record.presence = TensorRecord::Presence::kAbsent;
  record.reading.reset();
}

/// Tells pool and ledger what the record's memory is used for now. Call after every change of
/// `leases`, `writes_in_flight`, what is read ahead or residency.
void SwapEngineCore::update_use(TensorRecord& record) noexcept {
  if (!record.block || !record.block->buffer) {
    return;
  }
  Block& block = *record.block;
  const bool behind = (record.writes_in_flight > 0 || record.arriving) && block.leases == 0 &&
                      !residency_.holds(to_number(record.id));
  if (behind) {
    block.buffer.expect_return();  // it comes back by itself when the write is done
  } else {
    block.buffer.expect_no_return();
  }
  count_block(block, ahead_.holds(to_number(record.id)) ? OverflowUse::kAhead
                     : behind                           ? OverflowUse::kBehind
                                                        : OverflowUse::kHeld);
}

void SwapEngineCore::count_block(Block& block, OverflowUse use) noexcept {
  if (!block.overflows()) {
    return;
  }
  const auto counter = [this](OverflowUse of) -> std::uint64_t* {
    return of == OverflowUse::kAhead    ? &ahead_overflow_bytes_
           : of == OverflowUse::kBehind ? &behind_overflow_bytes_
                                        : nullptr;
  };
  if (std::uint64_t* before = counter(block.counted_as)) {
    *before -= block.buffer.capacity();
  }
  if (std::uint64_t* after = counter(use)) {
    *after += block.buffer.capacity();
  }
  block.counted_as = use;
}

/// Callers have it, or wait for it. What the user wants pageable, or what is so because there was
/// no plan yet, says nothing of how much pinned memory is needed.
void SwapEngineCore::hold(Block& block, const TensorRecord& record) const noexcept {
  if (block.buffer && !block.held && !block.precedes_plan && record.ruled != Place::kStream) {
    if_memory_allows([&] { block.held = held_->hold(block.bytes, block.overflows()); });
  }
}

/// Remembers how much pageable memory callers themselves held at once: reading ahead, writing
/// behind and keeping freed memory for reuse stay within it, so that they do not raise the peak.
void SwapEngineCore::note_memory_peak() {
  const std::uint64_t overflow = pool_->stats().overflow_bytes;
  const std::uint64_t ours = ahead_overflow_bytes_ + behind_overflow_bytes_;
  held_overflow_max_ = std::max(held_overflow_max_, overflow > ours ? overflow - ours : 0);
  stats_.resident_bytes_max = std::max(stats_.resident_bytes_max, residency_.held_bytes());
}

void SwapEngineCore::operation_ended() noexcept {
  PENSTOCK_CHECK(operations_ > 0, "an operation ended that had not begun");
  --operations_;
  changed_.notify_all();
}

Result<void> SwapEngineCore::flush() {
  {
    Locked locked(mutex_, *this);
    write_again(locked);
  }
  Result<void> written;
  {
    Locked locked(mutex_, *this);
    locked.wait(*waiting_, changed_, [this] { return writing_bytes_ == 0; });
    written = tell_failure();
  }
  return publish_stores(std::move(written));
}

Result<void> SwapEngineCore::check() {
  const std::lock_guard lock(mutex_);
  return tell_failure();
}

TraceLog::Watch SwapEngineCore::watch() const {
  return [waiting = waiting_, stalls = stalls_] {
    const auto now = stalls->now().time_since_epoch();
    return TraceLog::Moment{static_cast<std::uint64_t>(
                                std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()),
                            waiting->waited_ns() + stalls->waited_ns()};
  };
}

/// A failed write that nobody knows of.
bool SwapEngineCore::untold_failure() {
  if (first_failure_ && first_failure_->ticket && first_failure_->ticket->error_told()) {
    first_failure_.reset();
    failure_told_ = true;
  }
  return first_failure_.has_value();
}

Result<void> SwapEngineCore::tell_failure() {
  if (!untold_failure()) {
    return {};
  }
  failure_told_ = true;
  return std::exchange(first_failure_, std::nullopt)->error;
}

Placement SwapEngineCore::placement() const {
  const std::lock_guard lock(mutex_);
  return placement_;
}

SwapStats SwapEngineCore::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_now();
}

/// With the lock held.
SwapStats SwapEngineCore::stats_now() const {
  SwapStats stats = stats_;
  stats.pinned_bytes_needed = pinned_need_.bytes;
  const HeldBufferLedger::Totals held = held_->totals();
  stats.overflow_buffers = held.pageable_buffers;
  stats.held_bytes_max = held.bytes_max;
  stats.held_overflow_bytes_max = held.pageable_bytes_max;
  stats.stall_ns = stalls_->waited_ns();
  stats.resident_bytes = residency_.held_bytes();
  stats.lookahead_bytes = ahead_.bytes();
  for (const auto& [id, space] : namespaces_) {
    stats.drive_bytes += space.store->used_bytes();
    const StoreCounters counters = space.store->counters();
    stats.journal_bytes += counters.journal_bytes;
    stats.publishes += counters.publishes;
  }
  stats.drive_bytes_max = std::max(stats.drive_bytes_max, stats.drive_bytes);
  if (pool_) {
    stats.pool = pool_->stats();
  }
  stats.staging_bytes = staging_bytes_;
  stats.io = queue_->stats();
  return stats;
}

Result<TensorState> SwapEngineCore::state(TensorId tensor) const {
  const std::lock_guard lock(mutex_);
  const TensorRecord* record = record_of(tensor);
  if (record == nullptr) {
    return unknown(tensor);
  }
  TensorState state;
  state.name = record->info.name;
  state.bytes = record->bytes;
  state.place = record->place;
  state.generation = record->generation;
  state.in_memory = record->presence == TensorRecord::Presence::kCurrent;
  state.resident = residency_.holds(to_number(tensor)) && state.in_memory;
  state.on_drive = record->stored != nullptr;
  state.writing = record->writes_in_flight > 0 || record->arriving;
  return state;
}

Result<void> SwapEngineCore::close() {
  {
    Locked locked(mutex_, *this);
    if (closed_) {
      return {};
    }
    closed_ = true;  // nothing new begins
    if (pool_) {
      pool_->stop_waiting();
    }
    if_memory_allows([&] { write_again(locked); });
  }
  Result<void> written;
  {
    Locked locked(mutex_, *this);
    locked.wait(*waiting_, changed_, [this] { return operations_ == 0; });
    written = unless_out_of_memory([this] { return tell_failure(); });
  }
  written = unless_out_of_memory([&] { return publish_stores(written); });
  if_memory_allows([this] { give_advice(); });
  std::unique_ptr<BufferPool> pool = drop_everything(written);
  stagings_.clear();  // tell what is left of them, and unregister
  pool.reset();       // unregisters its arenas, for which the queue must still run
  if (queue_) {
    queue_->stop();
  }
  return written;
}

/// Where nothing has asked for it.
void SwapEngineCore::give_advice() const {
  const std::optional<std::string> advice = new_overflow_advice();
  const bool is_told = [this] {
    const std::lock_guard lock(mutex_);
    return advice_is_told_;
  }();
  if (advice && !is_told) {
    warn(*advice);
  }
}

/// Records, namespaces and the pool, which is given back: others may still ask for stats. `written`
/// becomes the first error of a store that closes, where it is none yet.
std::unique_ptr<BufferPool> SwapEngineCore::drop_everything(Result<void>& written) noexcept {
  Locked locked(mutex_, *this);
  while (!records_.empty()) {
    erase_record(*records_.begin()->second, locked);
  }
  for (const auto& [id, space] : std::exchange(namespaces_, {})) {
    Result<void> closed = unless_out_of_memory([&store = *space.store] { return store.close(); });
    if (written.has_value() && closed.has_error()) {
      written = std::move(closed).error();
    }
  }
  return std::move(pool_);
}

}  // namespace penstock
