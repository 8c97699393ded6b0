#include "bench/workload/request_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace penstock::bench {
namespace {

constexpr std::uint64_t kThinkPartNs = 50'000'000;

std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

void clear(DirectionTally& tally) {
  tally.bytes = 0;
  tally.ios = 0;
  tally.clat = {};
  tally.bandwidth.clear();
}

}  // namespace

RequestLoop::RequestLoop(IoEngine& engine, const FileSet& files, std::span<std::byte> arena,
                         std::uint32_t depth, ContentGuard* guard)
    : engine_(engine),
      files_(files),
      guard_(guard),
      slots_(std::make_unique<Slot[]>(depth)),
      passes_(files.files().size()) {
  free_.reserve(depth);
  fresh_.reserve(depth);
  const std::size_t slot_bytes = arena.size() / depth;
  for (std::uint32_t index = depth; index-- != 0;) {
    Slot& slot = slots_[index];
    slot.loop = this;
    slot.op.data = arena.data() + index * slot_bytes;
    slot.op.context = &slot;
    slot.op.on_complete = [](IoOp& op) noexcept {
      auto& over = *static_cast<Slot*>(op.context);
      over.loop->finish(over);
    };
    free_.push_back(&slot);
  }
}

Result<void> RequestLoop::run(RequestFeed& feed, const LoopPace& pace, RunControl& control) {
  begin_run(pace, control);
  while (true) {
    top_up(feed);
    if (in_flight_ == 0) {
      break;
    }
    round();
  }
  end_ns_ = clock_ns();
  return std::exchange(outcome_, {});
}

std::uint64_t RequestLoop::ns_since_begin() const {
  return clock_ns() - begin_ns_;
}

void RequestLoop::begin_run(const LoopPace& pace, RunControl& control) {
  control_ = &control;
  clear(reads_);
  clear(writes_);
  pace_ = pace;
  ended_ = false;
  stopped_ = false;
  unsynced_writes_ = 0;
  begin_ns_ = clock_ns();
  now_ns_ = begin_ns_;
}

void RequestLoop::top_up(RequestFeed& feed) {
  while (!ended_ && !free_.empty() && !is_over()) {
    const std::optional<Request> request = feed.next();
    if (!request) {
      ended_ = true;
      return;
    }
    begin(*request);
    after_request(*request);
  }
}

bool RequestLoop::is_over() {
  stopped_ = control_->stop.load(std::memory_order_relaxed);
  ended_ = ended_ || stopped_ || (pace_.runtime_ns && now_ns_ - begin_ns_ >= *pace_.runtime_ns);
  return ended_;
}

void RequestLoop::begin(const Request& request) {
  const bool reads = request.kind == IoKind::kRead;
  if (guard_ != nullptr && !reads) {
    wait_for_older_passes(request);
  }
  Slot& slot = *free_.back();
  free_.pop_back();
  slot.request = request;
  slot.op.kind = request.kind;
  slot.op.file = &files_.files()[request.file];
  slot.op.offset = request.place.offset;
  slot.op.bytes = request.place.bytes;
  if (guard_ != nullptr && !reads) {
    guard_->before_write(request, {slot.op.data, request.place.bytes});
  }
  fresh_.push_back(&slot);
  ++in_flight_;
  engine_.submit(slot.op);
}

// Of two writes to one place that are under way together, nobody knows which one stays.
void RequestLoop::wait_for_older_passes(const Request& request) {
  std::uint32_t& pass = passes_[request.file];
  if (request.place.pass > pass) {
    drain();
    pass = request.place.pass;
  }
}

void RequestLoop::after_request(const Request& request) {
  if (request.kind == IoKind::kWrite && pace_.fsync_writes != 0 &&
      ++unsynced_writes_ == pace_.fsync_writes) {
    unsynced_writes_ = 0;
    drain();
    if (Result<void> synced = FileSet::sync(files_.files()[request.file]); synced.has_error()) {
      fail(std::move(synced).error());
    }
    now_ns_ = clock_ns();
  }
  if (pace_.thinktime_ns != 0) {
    drain();
    think();
  }
}

// In parts, so that nobody who wants to stop has to wait for the end of a long thought.
void RequestLoop::think() {
  const std::uint64_t begin_ns = now_ns_;
  for (std::uint64_t thought_ns = 0; thought_ns < pace_.thinktime_ns && !is_over();
       thought_ns = now_ns_ - begin_ns) {
    const std::uint64_t left_ns = std::min(pace_.thinktime_ns - thought_ns, kThinkPartNs);
    std::this_thread::sleep_for(std::chrono::nanoseconds(left_ns));
    now_ns_ = clock_ns();
  }
}

// What advance() finds there is told at once; only where that is nothing do we wait.
void RequestLoop::round() {
  engine_.advance();
  stamp();
  if (engine_.deliver() == 0) {
    (void)engine_.wait();  // false: what is under way waits to be issued again, by advance()
    now_ns_ = clock_ns();
    engine_.deliver();
  }
  control_->read_bytes.store(reads_.bytes, std::memory_order_relaxed);
  control_->write_bytes.store(writes_.bytes, std::memory_order_relaxed);
}

void RequestLoop::drain() {
  while (in_flight_ != 0) {
    round();
  }
}

// The latency of a request begins when the kernel has it, as fio counts it.
void RequestLoop::stamp() {
  now_ns_ = clock_ns();
  for (Slot* const slot : fresh_) {
    slot->issued_ns = now_ns_;
  }
  fresh_.clear();
}

void RequestLoop::finish(Slot& slot) {
  --in_flight_;
  free_.push_back(&slot);
  const IoOp& op = slot.op;
  const bool reads = op.kind == IoKind::kRead;
  if (op.error != 0) {
    const std::string& path = op.file->path();
    fail(system_error(op.error,
                      fmt::format("cannot {} {} bytes at offset {} of {}", reads ? "read" : "write",
                                  op.bytes, op.error_offset, path),
                      path));
    return;
  }
  DirectionTally& tally = reads ? reads_ : writes_;
  tally.bytes += op.bytes;
  ++tally.ios;
  tally.clat.add(now_ns_ - slot.issued_ns);
  tally.bandwidth.add(now_ns_ - begin_ns_, op.bytes);
  if (guard_ != nullptr && reads) {
    if (Result<void> good = guard_->after_read(slot.request, {op.data, op.bytes});
        good.has_error()) {
      fail(std::move(good).error());
    }
  }
}

// The first error stays; nothing more is begun.
void RequestLoop::fail(Error error) {
  if (outcome_.has_value()) {
    outcome_ = std::move(error);
  }
  ended_ = true;
}

}  // namespace penstock::bench
