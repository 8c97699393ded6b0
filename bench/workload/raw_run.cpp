#include <algorithm>
#include <optional>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/measure/cpu_clock.h"
#include "bench/workload/block_feed.h"
#include "bench/workload/mixed.h"
#include "bench/workload/raw_file.h"
#include "bench/workload/request_loop.h"
#include "bench/workload/workload_run.h"

namespace penstock::bench {
namespace {

class RawRun final : public WorkloadRun {
 public:
  RawRun(const Job& job, std::uint32_t thread) : job_(job), thread_(thread) {}

  Result<void> prepare(RunControl& control) override;
  Result<void> run(RunControl& control, JobResult& result) override;

 private:
  Result<void> make_engine_and_memory();
  Result<bool> run_ramp(RunControl& control);
  Result<void> move_bytes(RunControl& control, JobResult& result);

  const Job job_;
  const std::uint32_t thread_;
  std::optional<RawFile> file_;
  std::optional<BlockFeed> feed_;
  Memory arena_;  // outlives the engine, whose kernel knows it
  std::unique_ptr<IoEngine> engine_;
  std::unique_ptr<RequestLoop> loop_;
  CpuTime cpu_before_;  // of this thread, when measuring began
};

Result<void> RawRun::prepare(RunControl& control) {
  Result<RawFile> file = open_raw_file(job_, thread_, control.stop);
  PENSTOCK_TRY(file);
  file_ = std::move(*file);
  feed_.emplace(job_, file_->bytes);
  control.total_bytes = job_.runtime_ns ? 0 : feed_->total_bytes();
  PENSTOCK_TRY(make_engine_and_memory());
  loop_ = std::make_unique<RequestLoop>(*engine_, file_->file, arena_.span(), job_.raw_depth());
  return {};
}

Result<void> RawRun::make_engine_and_memory() {
  const std::uint64_t slot_bytes = align_up(job_.raw_block_bytes(), kBlockBytes);
  const auto block_bytes = static_cast<std::uint32_t>(std::min(slot_bytes, kGiB));
  Result<std::unique_ptr<IoEngine>> engine =
      make_engine(job_.engine.value_or(EngineKind::kThreads),
                  {.block_bytes = block_bytes, .depth = job_.raw_depth()});
  PENSTOCK_TRY(engine);
  Result<Memory> arena = PageSource::make()->allocate(slot_bytes * job_.raw_depth());
  PENSTOCK_TRY(arena);
  arena_ = std::move(*arena);
  engine_ = std::move(*engine);
  fill_with_noise(arena_.span(), thread_);
  const Result<void> registered = engine_->register_memory(arena_.span());
  return job_.fixedbufs ? registered : Result<void>();
}

Result<void> RawRun::run(RunControl& control, JobResult& result) {
  cpu_before_ = cpu_time(RUSAGE_THREAD);
  Result<void> outcome = move_bytes(control, result);
  result.cpu = cpu_time(RUSAGE_THREAD) - cpu_before_;
  if (job_.unlink) {
    Result<void> unlinked = remove_file(file_->file.path());
    outcome = outcome.has_value() ? std::move(unlinked) : std::move(outcome);
  }
  return outcome;
}

// True: the job has ended in it, and is measured whole. What moves in it is part of the job, as fio
// counts.
Result<bool> RawRun::run_ramp(RunControl& control) {
  if (job_.ramp_time_ns == 0) {
    return false;
  }
  PENSTOCK_TRY(loop_->run(*feed_, {.runtime_ns = job_.ramp_time_ns, .rate = job_.rate}, control));
  const LoopResult& ramp = loop_->result();
  const std::uint64_t moved = ramp.reads.io_bytes + ramp.writes.io_bytes;
  if (moved != 0 && moved == feed_->total_bytes()) {
    return true;
  }
  control.total_bytes -= control.total_bytes == 0 ? 0 : moved;
  return false;
}

Result<void> RawRun::move_bytes(RunControl& control, JobResult& result) {
  const Result<bool> ended = run_ramp(control);
  PENSTOCK_TRY(ended);
  Result<void> outcome;
  if (!*ended) {
    cpu_before_ = cpu_time(RUSAGE_THREAD);
    result.process_before = cpu_time(RUSAGE_SELF);
    outcome = loop_->run(*feed_, {.runtime_ns = job_.runtime_ns, .rate = job_.rate}, control);
  }
  const LoopResult& done = loop_->result();
  std::uint64_t elapsed_ns = done.elapsed_ns;
  if (outcome.has_value() && job_.ends_synced) {
    outcome = file_->file.sync();
    elapsed_ns = loop_->ns_since_begin();
  }
  result.read = done.reads;
  result.write = done.writes;
  for (DirectionResult* const one : {&result.read, &result.write}) {
    one->runtime_ns = one->total_ios == 0 ? 0 : elapsed_ns;
  }
  // The engine does not say which direction they had: those of a mix count as its reads.
  (result.read.total_ios != 0 ? result.read : result.write).short_ios =
      engine_->stats().short_transfers;
  result.courses = {done.course.samples()};
  result.elapsed_ns = elapsed_ns;
  result.interrupted = done.stopped;
  return outcome;
}

}  // namespace

std::unique_ptr<WorkloadRun> make_raw_run(const Job& job, std::uint32_t thread) {
  return std::make_unique<RawRun>(job, thread);
}

}  // namespace penstock::bench
