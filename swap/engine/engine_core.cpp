#include "swap/engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "alloc/memlock_limit.h"
#include "alloc/out_of_memory.h"
#include "alloc/pinned_source.h"
#include "swap/engine/overflow_advice.h"
#include "swap/log.h"
#include "swap/numa_choice.h"

namespace penstock {
namespace {

// Pinning is registering with the ring: the kernel then holds the pages and VmPin counts them.
// Locking them as well would count them twice; without a ring nothing here profits from locked
// pages.
PinHook ring_registration(const std::shared_ptr<IoQueue>& queue,
                          std::function<void(const Warning&)> warn) {
  const auto warned = std::make_shared<std::atomic<bool>>(false);
  return {
      .pin = [queue, warn = std::move(warn), warned](std::span<std::byte> memory) -> Result<void> {
        const Result<void> registered = queue->register_memory(memory);
        if (registered.has_error() && !warned->exchange(true)) {
          warn({WarningCode::kUnregisteredBuffers,
                fmt::format(
                    "buffers are not registered with the I/O engine, which costs CPU time: {}",
                    registered.error().message)});
        }
        return {};
      },
      .unpin = [queue](std::span<std::byte> memory) { queue->unregister_memory(memory); },
  };
}

}  // namespace

EngineCore::EngineCore(SwapEngineOptions options) {
  context.options = std::move(options);
  context.worker = this;
}

EngineCore::~EngineCore() {
  (void)close();
}

Result<std::shared_ptr<EngineCore>> EngineCore::make(SwapEngineOptions options) {
  std::shared_ptr<EngineCore> core(new EngineCore(std::move(options)));
  core->context.engine = core;
  PENSTOCK_TRY(core->open_queue());
  PENSTOCK_TRY(core->open_memory());
  return core;
}

Result<void> EngineCore::open_queue() {
  const EngineKind engine = context.options.config.engine;
  if (!moves_bytes(engine)) {
    return fault(Fault::kConfiguration,
                 fmt::format("the I/O engine '{}' moves nothing: every tensor would be lost",
                             engine_kind_name(engine)));
  }
  const IoEngineOptions& io = context.options.io;
  Result<std::unique_ptr<IoQueue>> queue =
      context.options.make_queue ? context.options.make_queue(io) : IoQueue::start(engine, io);
  PENSTOCK_TRY(queue);
  context.queue = std::move(queue).value();
  context.queue->on_notify([this, core = context.engine] {
    if (const std::shared_ptr<void> held = core.lock()) {
      run_ahead();
    }
  });
  for (const EngineCandidate& refused : context.queue->refusals()) {
    log_info(LogEvent::kFallback, [&] {
      return fmt::format("I/O by {}, not by {}: {}", context.queue->engine_name(), refused.name,
                         refused.reason);
    });
  }
  Waiting::Step step;
  Waiting::Now now;
  if (context.queue->caller_drives()) {
    step = [driven = context.queue.get()] { return driven->step(); };
    now = [driven = context.queue.get()] { return driven->now(); };
  }
  context.waiting = std::make_shared<Waiting>(step, now);
  context.stalls = std::make_shared<Waiting>(step, now);
  return {};
}

Result<void> EngineCore::open_memory() {
  Budgets budgets = planner.open();
  PageSourceOptions pages{.huge_pages = HugePages::kTransparent,
                          .numa = choose_numa_node(std::nullopt)};
  EngineMemory::Sources sources;
  sources.resident = context.options.pageable ? context.options.pageable : PageSource::make(pages);
  sources.overflow = RecyclingSource::make(sources.resident);
  sources.transfers = TransferMemory::make(sources.resident);
  pages.huge_pages = HugePages::kReserved;
  sources.pinned_pages = PageSource::make(std::move(pages));
  std::vector<PinHook> hooks = {ring_registration(context.queue, context.options.warn)};
  hooks.insert(hooks.end(), context.options.pin_hooks.begin(), context.options.pin_hooks.end());
  std::ranges::move(pinned_for(context.options.devices), std::back_inserter(hooks));
  PENSTOCK_TRY(devices.open(hooks, budgets.max_pinned_bytes));
  budgets.hold_for_devices(devices.bytes(), context.options.devices.size());
  sources.pinned = LimitingSource::make(PinnedSource::make(sources.pinned_pages, std::move(hooks)),
                                        budgets.max_pinned_bytes, "max_pinned_bytes");
  const BriefLock lock(context);
  memory.budgets() = budgets;
  memory.residency().set_limit_bytes(budgets.ram_bytes);
  memory.open(std::move(sources), std::weak_ptr<LeaseKeeper>(context.hold(broker)));
  return {};
}

void EngineCore::send(WritingPtr writing) noexcept {
  if (writing->fill != 0) {
    writers_.committer.receive(writing);
  } else {
    writers_.writer.send(writing);
  }
}

void EngineCore::fill(const FillRequest& request) noexcept {
  if (request.is_ahead) {
    readers_.ahead.fill(request);
  } else {
    readers_.reader.fill(request);
  }
}

void EngineCore::copy(CopyRequest request) noexcept {
  readers_.reader.copy(std::move(request));
}

void EngineCore::run_ahead() noexcept {
  readers_.reader.fill_put_off();
  readers_.ahead.run();
}

TraceLog::Watch EngineCore::watch() const {
  return [waiting = context.waiting, stalls = context.stalls] {
    const auto now = stalls->now().time_since_epoch();
    return TraceLog::Moment{static_cast<std::uint64_t>(
                                std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()),
                            waiting->waited_ns() + stalls->waited_ns()};
  };
}

SwapStats EngineCore::stats() {
  const BriefLock lock(context);
  return stats_now();
}

SwapStats EngineCore::stats_now() {
  SwapStats stats = context.stats;
  stats.pinned_bytes_needed = planner.pinned_need();
  const HeldBufferLedger::Totals held = memory.ledger().totals();
  stats.overflow_buffers = held.pageable_buffers;
  stats.held_bytes_max = held.bytes_max;
  stats.held_overflow_bytes_max = held.pageable_bytes_max;
  stats.stall_ns = context.stalls->waited_ns();
  stats.resident_bytes = memory.residency().held_bytes();
  stats.lookahead_bytes = memory.ahead().bytes();
  for (const auto& [id, space] : table.namespaces()) {
    stats.drive_bytes += space.store->used_bytes();
    const StoreCounters counters = space.store->counters();
    stats.journal_bytes += counters.journal_bytes;
    stats.publishes += counters.publishes;
  }
  stats.drive_bytes_max = std::max(stats.drive_bytes_max, stats.drive_bytes);
  if (memory.pool() != nullptr) {
    const std::uint64_t put_off = context.stats.pool.waits;
    stats.pool = memory.pool()->stats();
    stats.pool.waits += put_off;
  }
  stats.staging_bytes = devices.bytes();
  stats.io = context.queue->stats();
  return stats;
}

std::optional<std::string> EngineCore::overflow_advice() {
  {
    const BriefLock lock(context);
    advice_is_given_ = true;
  }
  return new_overflow_advice();
}

std::optional<std::string> EngineCore::new_overflow_advice() {
  if (memory.ledger().totals().pageable_buffers == 0) {
    return std::nullopt;
  }
  planner.update_pinned_need();
  const BriefLock lock(context);
  return penstock::overflow_advice(stats_now(), memory.budgets(), memlock_limit_bytes());
}

/// Where the caller has not asked for it.
void EngineCore::give_advice() {
  const std::optional<std::string> advice = new_overflow_advice();
  const bool is_given = [this] {
    const BriefLock lock(context);
    return advice_is_given_;
  }();
  if (advice && !is_given) {
    context.warn(WarningCode::kOverflow, *advice);
  }
}

Result<void> EngineCore::close() {
  {
    Locked locked(context);
    if (context.closed) {
      if (closed_) {
        return {};
      }
      // What the first call has yet to write is not safe before that ends.
      locked.wait([this]() PENSTOCK_NEEDS_LOCK { return closed_.has_value(); });
      return closed_->has_error() ? Result<void>(copy_of(closed_->error())) : Result<void>();
    }
    context.closed = true;  // nothing new begins
    if (memory.pool() != nullptr) {
      memory.pool()->stop_waiting();
    }
    if_memory_allows([&]() PENSTOCK_NEEDS_LOCK { namespaces_.write_again(locked); });
    locked.run_ahead();  // for gets that waited for memory
  }
  // Whatever comes of it, a call beside this one must not wait for ever.
  Result<void> written = unless_out_of_memory([this] { return end(); });
  const BriefLock lock(context);
  closed_ = written.has_error() ? Result<void>(copy_of(written.error())) : Result<void>();
  context.changed.notify_all();
  return written;
}

/// What is under way ends, and all goes.
Result<void> EngineCore::end() {
  Result<void> written;
  {
    Locked locked(context);
    locked.wait([this]() PENSTOCK_NEEDS_LOCK { return context.operations == 0; });
    written =
        unless_out_of_memory([this]() PENSTOCK_NEEDS_LOCK { return writers_.failures.take(); });
  }
  written = unless_out_of_memory([&] { return namespaces_.publish(written); });
  if_memory_allows([this] { give_advice(); });
  std::unique_ptr<BufferPool> pool;
  {
    Locked locked(context);
    written = namespaces_.drop_all(std::move(written), locked);
    pool = memory.close();  // others may still ask for stats
  }
  devices.close();
  pool.reset();  // unregisters its arenas, for which the queue must still run
  if (context.queue) {
    context.queue->stop();
  }
  flush_log();
  return written;
}

}  // namespace penstock
