#include "bench/workload/swap/swap_meter.h"

#include <algorithm>
#include <utility>

namespace penstock::bench {
SwapMeter::SwapMeter(const SwapEngine& engine, const SwapDevice& device, RunControl& control)
    : engine_(engine), device_(device), control_(control) {}

void SwapMeter::begin() {
  reads_ = {};
  writes_ = {};
  control_.read_bytes = 0;
  control_.write_bytes = 0;
  before_ = engine_.stats();
  course_ = {};
  pageable_bytes_max_ = 0;
  live_bytes_max_ = 0;
  thread_before_ = cpu_time(RUSAGE_THREAD);
  process_before_ = cpu_time(RUSAGE_SELF);
  began_ns_ = device_.now_ns();
}

void SwapMeter::add_sample(const SwapStats& stats, std::uint64_t at_ns) {
  pageable_bytes_max_ = std::max(pageable_bytes_max_, stats.pool.overflow_bytes);
  live_bytes_max_ = std::max(live_bytes_max_, stats.pool.slot_bytes_live);
  course_.add({at_ns, stats.io.read_bytes - before_.io.read_bytes,
               stats.io.write_bytes - before_.io.write_bytes, stats.stall_ns - before_.stall_ns,
               stats.pool.pinned_bytes, stats.pool.slot_bytes_live});
}

void SwapMeter::look() {
  if (course_.wants(elapsed_ns())) {
    add_sample(engine_.stats(), elapsed_ns());
  }
}

std::uint64_t SwapMeter::note_asked() {
  look();
  return device_.now_ns();
}

void SwapMeter::note_read(std::uint64_t since_ns, std::uint64_t bytes) {
  ++reads_.total_ios;
  reads_.clat.add(device_.now_ns() - since_ns);
  control_.read_bytes += bytes;
  look();
}

void SwapMeter::note_written(std::uint64_t bytes) {
  control_.write_bytes += bytes;
  ++writes_.total_ios;
  look();
}

SwapResult SwapMeter::swap_result(const SwapStats& now) const {
  SwapResult swap;
  swap.stall_ns = now.stall_ns - before_.stall_ns;
  swap.hits = now.hits - before_.hits + now.resident_hits - before_.resident_hits;
  swap.late = now.late - before_.late;
  swap.misses = now.misses - before_.misses;
  swap.pinned_bytes = now.pool.pinned_bytes;
  // The pool's own is since it was opened; one that was not exceeded says nothing of this run.
  swap.peak_live_bytes = now.pool.slot_bytes_live_max > before_.pool.slot_bytes_live_max
                             ? now.pool.slot_bytes_live_max
                             : live_bytes_max_;
  swap.pageable_bytes = pageable_bytes_max_;
  swap.pool_waits = now.pool.waits - before_.pool.waits;
  swap.padding_bytes = now.padding_bytes - before_.padding_bytes;
  swap.read_bytes = now.io.read_bytes - before_.io.read_bytes;
  swap.write_bytes = now.io.write_bytes - before_.io.write_bytes;
  swap.busy_ns = now.io.busy_ns - before_.io.busy_ns;
  swap.hidden_ns = swap.busy_ns - std::min(swap.stall_ns, swap.busy_ns);
  return swap;
}

void SwapMeter::report(JobResult& result) {
  const SwapStats now = engine_.stats();
  result.elapsed_ns = elapsed_ns();
  add_sample(now, result.elapsed_ns);
  reads_.io_bytes = now.tensor_read_bytes - before_.tensor_read_bytes;
  writes_.io_bytes = now.tensor_write_bytes - before_.tensor_write_bytes;
  for (DirectionResult* const one : {&reads_, &writes_}) {
    one->runtime_ns = one->io_bytes == 0 && one->total_ios == 0 ? 0 : result.elapsed_ns;
  }
  result.read = reads_;
  result.write = writes_;
  result.swap = swap_result(now);
  result.courses = {course_.samples()};
  if (!device_.is_simulated()) {
    result.cpu = cpu_time(RUSAGE_THREAD) - thread_before_;  // the group adds the engine's threads
    result.process_before = process_before_;
  }
}

}  // namespace penstock::bench
