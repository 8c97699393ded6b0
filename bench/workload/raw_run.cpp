#include "bench/workload/raw_run.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/measure/cpu_clock.h"
#include "bench/workload/file_set.h"
#include "bench/workload/random_numbers.h"
#include "bench/workload/request_loop.h"
#include "bench/workload/request_source.h"
#include "bench/workload/sync_engine.h"
#include "bench/workload/verified_contents.h"

namespace penstock::bench {
namespace {

// What is not verified is noise, so that no drive can make less of it.
void fill_with_noise(std::span<std::byte> memory, std::uint64_t seed) {
  BlockPattern(~seed).fill(memory, 0, 0, 0);
}

void take_tally(const DirectionTally& tally, std::uint64_t elapsed_ns, DirectionResult& result) {
  if (tally.ios == 0) {
    return;
  }
  DirectionResult done;
  done.io_bytes = tally.bytes;
  done.total_ios = tally.ios;
  done.clat = tally.clat;
  done.bandwidth = tally.bandwidth.samples(elapsed_ns);
  result.merge(done);
  result.runtime_ns += elapsed_ns;
}

class RawRun final : public WorkloadRun {
 public:
  RawRun(const Job& job, std::uint32_t thread) : job_(job), thread_(thread) {}

  Result<void> prepare(RunControl& control) override;
  Result<void> run(RunControl& control, JobResult& result) override;

 private:
  bool synchronous() const noexcept { return job_.synchronous || !job_.engine; }
  std::uint32_t depth() const noexcept { return synchronous() ? 1 : job_.iodepth.value_or(1); }
  Result<void> check() const;
  Result<void> make_engine_and_memory();
  Result<void> move_bytes(RunControl& control, JobResult& result);
  Result<void> read_back(RunControl& control, JobResult& result);
  void take(JobResult& result, std::uint64_t elapsed_ns);

  const Job job_;
  const std::uint32_t thread_;
  std::optional<FileSet> files_;
  std::unique_ptr<RequestSource> source_;
  Memory arena_;  // outlives the engine, whose kernel knows it
  std::unique_ptr<IoEngine> engine_;
  std::unique_ptr<VerifiedContents> contents_;
  std::unique_ptr<RequestLoop> loop_;
  std::uint64_t told_shorts_ = 0;
};

Result<void> RawRun::prepare(RunControl& control) {
  PENSTOCK_TRY(check());
  Result<FileSet> files = FileSet::open(job_, thread_, control.stop);
  PENSTOCK_TRY(files);
  files_ = std::move(*files);
  Result<std::unique_ptr<RequestSource>> source =
      RequestSource::make(job_, thread_, files_->regions());
  PENSTOCK_TRY(source);
  source_ = std::move(*source);
  control.total_bytes = job_.runtime_ns ? 0 : source_->total_bytes();
  PENSTOCK_TRY(make_engine_and_memory());
  if (job_.verify) {
    contents_ = std::make_unique<VerifiedContents>(job_, *files_);
  }
  loop_ = std::make_unique<RequestLoop>(*engine_, *files_, arena_.span(), depth(), contents_.get());
  return {};
}

Result<void> RawRun::check() const {
  if (job_.simulated) {
    return fault(
        Fault::kUnsupported,
        "ioengine=sim is for workload=swap, update and replay; workload=raw measures a real "
        "drive or ioengine=null");
  }
  if (job_.time_based && !job_.runtime_ns) {
    return fault(Fault::kInvalidArgument, "time_based needs `runtime`");
  }
  if (job_.verify && job_.engine == EngineKind::kNull) {
    return fault(Fault::kInvalidArgument,
                 "the null engine keeps nothing that `verify` could read back");
  }
  return {};
}

Result<void> RawRun::make_engine_and_memory() {
  const std::uint64_t slot_bytes = align_up(RequestSource::largest_block_bytes(job_), kBlockBytes);
  const auto block_bytes = static_cast<std::uint32_t>(std::min(slot_bytes, kGiB));
  Result<std::unique_ptr<IoEngine>> engine =
      synchronous() ? make_sync_engine(block_bytes)
                    : make_engine(*job_.engine, {.block_bytes = block_bytes, .depth = depth()});
  PENSTOCK_TRY(engine);
  Result<Memory> arena = PageSource::make()->allocate(slot_bytes * depth());
  PENSTOCK_TRY(arena);
  arena_ = std::move(*arena);
  engine_ = std::move(*engine);
  fill_with_noise(arena_.span(), job_.randseed + thread_);
  const Result<void> registered = engine_->register_memory(arena_.span());
  return job_.fixedbufs ? registered : Result<void>();
}

Result<void> RawRun::run(RunControl& control, JobResult& result) {
  const CpuTime before = thread_cpu_time();
  Result<void> outcome = move_bytes(control, result);
  if (outcome.has_value() && contents_ != nullptr && job_.direction.writes &&
      !control.stop.load()) {
    outcome = read_back(control, result);
  }
  const CpuTime spent = thread_cpu_time() - before;
  result.user_seconds += spent.user_seconds;
  result.system_seconds += spent.system_seconds;
  if (job_.unlink) {
    Result<void> unlinked = files_->unlink();
    outcome = outcome.has_value() ? std::move(unlinked) : std::move(outcome);
  }
  return outcome;
}

Result<void> RawRun::move_bytes(RunControl& control, JobResult& result) {
  LoopPace pace{job_.ramp_time_ns, job_.thinktime_us * 1000, job_.fsync};
  if (job_.ramp_time_ns != 0) {
    PENSTOCK_TRY(loop_->run(*source_, pace, control));
    source_->restart_total();
  }
  pace.runtime_ns = job_.runtime_ns;
  Result<void> outcome = loop_->run(*source_, pace, control);
  std::uint64_t elapsed_ns = loop_->elapsed_ns();
  if (outcome.has_value() && job_.end_fsync && job_.direction.writes) {
    outcome = files_->sync();
    elapsed_ns = loop_->ns_since_begin();
  }
  take(result, elapsed_ns);
  return outcome;
}

// As fio: the reads that verify count as reads of the job.
Result<void> RawRun::read_back(RunControl& control, JobResult& result) {
  PENSTOCK_TRY(files_->sync());
  files_->drop_cache();
  contents_->read_back();
  WrittenMap::Feed feed(contents_->written());
  const Result<void> outcome = loop_->run(feed, {}, control);
  take(result, loop_->elapsed_ns());
  return outcome;
}

void RawRun::take(JobResult& result, std::uint64_t elapsed_ns) {
  take_tally(loop_->reads(), elapsed_ns, result.read);
  take_tally(loop_->writes(), elapsed_ns, result.write);
  // The engine does not tell which direction they had: those of a mix are told with its reads.
  const std::uint64_t shorts = engine_->stats().short_transfers;
  (loop_->reads().ios != 0 ? result.read : result.write).short_ios += shorts - told_shorts_;
  told_shorts_ = shorts;
  result.elapsed_ns += elapsed_ns;
  result.interrupted = result.interrupted || loop_->stopped();
}

}  // namespace

std::unique_ptr<WorkloadRun> make_raw_run(const Job& job, std::uint32_t thread) {
  return std::make_unique<RawRun>(job, thread);
}

}  // namespace penstock::bench
