#include "bench/workload/request_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace penstock::bench {
namespace {

constexpr std::uint64_t kSleepNsMax = 50'000'000;  // so that a stop is seen soon

std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

RequestLoop::RequestLoop(IoEngine& engine, const File& file, std::span<std::byte> arena,
                         std::uint32_t depth)
    : engine_(engine),
      file_(file),
      is_asynchronous_(engine.name() != "threads"),
      slots_(std::make_unique<Slot[]>(depth)) {
  free_.reserve(depth);
  fresh_.reserve(depth);
  const std::size_t slot_bytes = arena.size() / depth;
  for (std::uint32_t index = depth; index-- != 0;) {
    Slot& slot = slots_[index];
    slot.loop = this;
    slot.op.data = arena.data() + index * slot_bytes;
    slot.op.file = &file_;
    slot.op.context = &slot;
    slot.op.on_complete = [](IoOp& op) noexcept {
      auto& over = *static_cast<Slot*>(op.context);
      over.loop->finish(over);
    };
    free_.push_back(&slot);
  }
}

Result<void> RequestLoop::run(BlockFeed& feed, const LoopPace& pace, RunControl& control) {
  begin_run(pace, control);
  while (true) {
    top_up(feed);
    if (in_flight_ != 0) {
      round();
    } else if (ended_) {
      break;
    } else {
      wait_for_rate();
    }
  }
  result_.elapsed_ns = ns_since_begin();
  add_sample(result_.elapsed_ns);
  return std::exchange(outcome_, {});
}

std::uint64_t RequestLoop::ns_since_begin() const {
  return clock_ns() - begin_ns_;
}

void RequestLoop::begin_run(const LoopPace& pace, RunControl& control) {
  control_ = &control;
  result_ = LoopResult();
  pace_ = pace;
  begun_read_bytes_ = 0;
  begun_write_bytes_ = 0;
  ended_ = false;
  begin_ns_ = clock_ns();
  now_ns_ = begin_ns_;
}

void RequestLoop::top_up(BlockFeed& feed) {
  while (!ended_ && !free_.empty() && !is_over()) {
    if (!next_) {
      next_ = feed.next();
    }
    if (!next_) {
      ended_ = true;
      return;
    }
    if (early_ns(*next_) != 0) {
      return;
    }
    begin(*next_);
    next_.reset();
  }
}

bool RequestLoop::is_over() {
  result_.stopped = control_->stop.load(std::memory_order_relaxed);
  ended_ =
      ended_ || result_.stopped || (pace_.runtime_ns && now_ns_ - begin_ns_ >= *pace_.runtime_ns);
  return ended_;
}

// By how much the request would be before its time under `rate`.
std::uint64_t RequestLoop::early_ns(const Request& request) const {
  if (pace_.rate == 0) {
    return 0;
  }
  const std::uint64_t begun =
      request.kind == IoKind::kRead ? begun_read_bytes_ : begun_write_bytes_;
  const auto due = static_cast<std::uint64_t>(static_cast<double>(begun) * 1e9 /
                                              static_cast<double>(pace_.rate));
  const std::uint64_t passed = now_ns_ - begin_ns_;
  return due > passed ? due - passed : 0;
}

void RequestLoop::wait_for_rate() {
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(std::min(next_ ? early_ns(*next_) : 0, kSleepNsMax)));
  now_ns_ = clock_ns();
}

void RequestLoop::begin(const Request& request) {
  Slot& slot = *free_.back();
  free_.pop_back();
  slot.op.kind = request.kind;
  slot.op.offset = request.offset;
  slot.op.bytes = request.bytes;
  (request.kind == IoKind::kRead ? begun_read_bytes_ : begun_write_bytes_) += request.bytes;
  fresh_.push_back(&slot);
  ++in_flight_;
  engine_.submit(slot.op);
}

// What advance() finds there is delivered at once; only where that is nothing do we wait.
void RequestLoop::round() {
  if (!is_asynchronous_) {
    stamp();
  }
  engine_.advance();
  stamp();
  if (engine_.deliver() == 0) {
    (void)engine_.wait();  // false: what is under way waits to be issued again, by advance()
    now_ns_ = clock_ns();
    engine_.deliver();
  }
  control_->read_bytes.store(result_.reads.io_bytes, std::memory_order_relaxed);
  control_->write_bytes.store(result_.writes.io_bytes, std::memory_order_relaxed);
  if (result_.course.wants(now_ns_ - begin_ns_)) {
    add_sample(now_ns_ - begin_ns_);
  }
}

void RequestLoop::add_sample(std::uint64_t at_ns) {
  result_.course.add({at_ns, result_.reads.io_bytes, result_.writes.io_bytes});
}

// The latency of a request begins when the kernel has it, as fio counts it; where a thread makes
// the call, before that thread has the request.
void RequestLoop::stamp() {
  now_ns_ = clock_ns();
  for (Slot* const slot : fresh_) {
    slot->issued_ns = now_ns_;
  }
  fresh_.clear();
}

// The first error stays; nothing more is begun after it.
void RequestLoop::finish(Slot& slot) {
  --in_flight_;
  free_.push_back(&slot);
  const IoOp& op = slot.op;
  const bool reads = op.kind == IoKind::kRead;
  if (op.error != 0) {
    const std::string& path = op.file->path();
    if (outcome_.has_value()) {
      outcome_ =
          system_error(op.error,
                       fmt::format("cannot {} {} bytes at offset {} of {}",
                                   reads ? "read" : "write", op.bytes, op.error_offset, path),
                       path);
    }
    ended_ = true;
    return;
  }
  DirectionResult& tally = reads ? result_.reads : result_.writes;
  tally.io_bytes += op.bytes;
  ++tally.total_ios;
  tally.clat.add(now_ns_ - slot.issued_ns);
}

}  // namespace penstock::bench
