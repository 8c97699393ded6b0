#include "bench/pair/paired_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "alloc/bytes.h"
#include "bench/pair/deepspeed_peer.h"
#include "bench/pair/fio_peer.h"
#include "bench/pair/pair_statistics.h"
#include "bench/workload/raw_file.h"
#include "bench/workload/swap/swap_inventory.h"
#include "bench/workload/swap/swap_session.h"

namespace penstock::bench {
namespace {

// Long enough for a drive's queue to be full most of the time, short enough that its next run finds
// the same drive.
constexpr std::uint64_t kRunBytesMax = kGiB;
constexpr std::uint64_t kSearchBytesMax = 256 * kMiB;
constexpr std::uint32_t kSwapPeerDepth = 16;

// One run of ours: the job itself, that leaves its files where they are.
Job our_job(const Job& job) {
  Job ours = job;
  ours.peer = Peer::kNone;
  ours.unlink = false;
  ours.stonewall = false;
  ours.group_reporting = true;
  return ours;
}

// A share of a file becomes bytes, which both sides take; a large file is not read to its end where
// the job does not say how much.
Result<void> settle_size(Job& ours) {
  if (ours.workload != Workload::kRaw) {
    return {};
  }
  const Result<std::uint64_t> bytes = file_bytes(ours, 0);
  PENSTOCK_TRY(bytes);
  if (ours.size_percent != 0) {
    ours.size = *bytes;
    ours.size_percent = 0;
  }
  if (!ours.io_size && !ours.runtime_ns && *bytes > kRunBytesMax) {
    ours.io_size = kRunBytesMax;
  }
  return {};
}

// Of a job that swaps: the peer's files go where its store is.
Result<std::string> store_directory(const Job& job) {
  const Result<Config> config = job_config(job);
  PENSTOCK_TRY(config);
  const std::vector<PathConfig> paths = store_paths(job, *config);
  if (paths.size() > 1) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("job {}: pair= compares on one drive, and {} names {}: say which by "
                             "directory=",
                             job.name, job.config, paths.size()));
  }
  return paths.front().path;
}

// The job's own requests, as many at once as divide what they fill of each file, up to 1 MiB.
Result<std::uint64_t> layout_block(const Job& ours) {
  std::uint64_t block_bytes = ours.raw_block_bytes();
  std::uint64_t filled = 0;  // of every file a multiple of it
  for (std::uint32_t thread = 0; thread < ours.numjobs; ++thread) {
    const Result<std::uint64_t> bytes = file_bytes(ours, thread);
    PENSTOCK_TRY(bytes);
    filled = std::gcd(filled, *bytes / block_bytes * block_bytes);
  }
  while (2 * block_bytes <= kMiB && filled % (2 * block_bytes) == 0) {
    block_bytes *= 2;
  }
  return block_bytes;
}

// Writes all of the job's files, since space that is only reserved costs its first writer more.
// Files that are only read are the workload's own to lay out: they may be anybody's.
Result<Job> layout_of(const Job& ours) {
  const Result<std::uint64_t> block_bytes = layout_block(ours);
  PENSTOCK_TRY(block_bytes);
  Job layout = ours;
  layout.peer = Peer::kNone;
  layout.direction = {.reads = false, .writes = true};
  layout.block_bytes = *block_bytes;
  layout.io_size.reset();
  layout.rate = 0;
  layout.runtime_ns.reset();
  layout.time_based = false;
  layout.ramp_time_ns = 0;
  layout.loops = 1;
  layout.ends_synced = true;
  return layout;
}

// As many bytes as our swap run moved, in the drive's favourite way, on a file that is open here.
Job uniform_work(const Job& job, const JobResult& ours, const File& file) {
  Job work;
  work.name = job.name + ".uniform";
  work.filename = fmt::format("/proc/{}/fd/{}", ::getpid(), file.fd());
  work.cpus_allowed = job.cpus_allowed;
  work.given = job.given;  // from which fio's command takes the same
  work.direct = true;
  work.engine = EngineKind::kAuto;
  work.iodepth = job.iodepth.value_or(kSwapPeerDepth);
  work.peer = job.peer;
  work.block_bytes = kMiB;
  const std::uint64_t bytes = ours.read.io_bytes + ours.write.io_bytes;
  work.direction = {.reads = ours.read.io_bytes > 0, .writes = ours.write.io_bytes > 0};
  work.rwmixread = static_cast<std::uint32_t>(ours.read.io_bytes * 100 / std::max(bytes, kMiB));
  work.io_size = std::max(align_down(bytes, kMiB), kMiB);
  work.size = std::min(*work.io_size, kRunBytesMax);
  return work;
}

Result<JobResult> run_alone(const Job& job, const BenchmarkOptions& options) {
  Result<std::vector<JobResult>> results = run_benchmark({job}, options);
  PENSTOCK_TRY(results);
  JobResult& result = results->front();
  if (result.error != 0) {
    return result.failure();
  }
  return std::move(result);
}

Result<void> lay_out(const Job& ours, const BenchmarkOptions& options) {
  const Result<Job> layout = layout_of(ours);
  PENSTOCK_TRY(layout);
  PENSTOCK_TRY(run_alone(*layout, options));
  return {};
}

// What callers of a swap job see moving: what RAM keeps of it never goes to a drive, and counts.
Result<PhaseBytes> bytes_of_calls(const Job& job) {
  const Result<SwapInventory> inventory = job_inventory(job);
  PENSTOCK_TRY(inventory);
  PhaseBytes bytes = phase_bytes(*inventory, phase_order(*inventory, job.phase));
  bytes.read *= job.loops;
  bytes.write *= job.loops;
  return bytes;
}

// The place of the one with the median bandwidth (the lower of two); the first where there is none.
std::size_t median_run(const std::vector<MeasuredRun>& runs) {
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t at) { return runs[at].bytes_per_second(); });
  return order.empty() ? 0 : order[(order.size() - 1) / 2];
}

/// The whole of one paired job.
class PairedRun {
 public:
  PairedRun(const Job& job, const PairedRunOptions& options)
      : job_(job), our_(our_job(job)), options_(options) {}
  ~PairedRun() {
    if (job_.unlink) {
      remove_files();
    }
  }
  PairedRun(const PairedRun&) = delete;
  PairedRun& operator=(const PairedRun&) = delete;

  Result<JobResult> run();

 private:
  bool interrupted() const {
    return options_.benchmark.interrupted && options_.benchmark.interrupted();
  }
  void remove_files() const;
  Result<MeasuredRun> run_ours();
  Result<Job> work_for_peer(const JobResult& warm);
  Result<void> find_peer(const JobResult& warm);
  Result<JobResult> take_all_turns();

  const Job& job_;
  Job our_;
  const PairedRunOptions& options_;
  PeerProgram peer_;
  std::size_t settings_ = 0;
  std::optional<PhaseBytes> bytes_of_calls_;  // where both sides are measured by them
  std::vector<JobResult> ours_;
  std::optional<File> scratch_;  // without a name: nothing is overwritten, and nothing is left
};

Result<JobResult> PairedRun::run() {
  PENSTOCK_TRY(settle_size(our_));
  if (job_.workload == Workload::kRaw && job_.direction.writes) {
    PENSTOCK_TRY(lay_out(our_, options_.benchmark));
  }
  Result<JobResult> warm = run_alone(our_, options_.benchmark);
  PENSTOCK_TRY(warm);
  const Result<void> found = interrupted() ? Result<void>() : find_peer(*warm);
  if (interrupted()) {
    warm->interrupted = true;
    return warm;
  }
  PENSTOCK_TRY(found);
  return take_all_turns();
}

// What cannot be removed stays; no figure depends on it.
void PairedRun::remove_files() const {
  for (std::uint32_t thread = 0; thread < job_.numjobs; ++thread) {
    (void)remove_file(file_path(job_, thread));
  }
}

// What the peer is to do, with its files there.
Result<Job> PairedRun::work_for_peer(const JobResult& warm) {
  Job work = our_;
  work.peer = job_.peer;
  if (job_.workload == Workload::kSwap) {
    Result<std::string> directory = store_directory(job_);
    PENSTOCK_TRY(directory);
    work.directory = std::move(*directory);
  }
  if (job_.workload == Workload::kSwap && job_.peer == Peer::kDeepSpeed) {
    const Result<PhaseBytes> bytes = bytes_of_calls(job_);
    PENSTOCK_TRY(bytes);
    bytes_of_calls_ = *bytes;
    return work;
  }
  if (measured_run(warm).bytes() == 0) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("job {}: it moves nothing that a peer could move", job_.name));
  }
  if (job_.workload == Workload::kSwap) {
    Result<File> scratch = File::create_scratch(work.directory);
    PENSTOCK_TRY(scratch);
    work = uniform_work(job_, warm, scratch_.emplace(std::move(*scratch)));
    PENSTOCK_TRY(lay_out(work, options_.benchmark));
  }
  return work;
}

Result<void> PairedRun::find_peer(const JobResult& warm) {
  const Result<Job> work = work_for_peer(warm);
  PENSTOCK_TRY(work);
  Result<PeerProgram> peer =
      work->peer == Peer::kFio ? make_fio_peer(*work) : make_deepspeed_peer(*work);
  PENSTOCK_TRY(peer);
  peer_ = std::move(*peer);
  const std::uint64_t run_bytes =
      bytes_of_calls_ ? bytes_of_calls_->read + bytes_of_calls_->write : measured_run(warm).bytes();
  const std::uint64_t trial_bytes = work->runtime_ns ? 0 : std::min(run_bytes, kSearchBytesMax);
  RoundLimits limits = options_.search;
  limits.interrupted = [this] { return interrupted(); };
  limits.end = std::chrono::steady_clock::now() + options_.search_time;
  const Result<std::size_t> best = find_best_settings(
      peer_.settings.size(), [&](std::size_t at) { return peer_.run(at, trial_bytes); }, limits);
  PENSTOCK_TRY(best);
  settings_ = *best;
  return {};
}

Result<MeasuredRun> PairedRun::run_ours() {
  Result<JobResult> result = run_alone(our_, options_.benchmark);
  PENSTOCK_TRY(result);
  ours_.push_back(std::move(*result));
  MeasuredRun run = measured_run(ours_.back());
  if (bytes_of_calls_) {
    run.read_bytes = bytes_of_calls_->read;
    run.write_bytes = bytes_of_calls_->write;
  }
  return run;
}

Result<JobResult> PairedRun::take_all_turns() {
  const std::vector<CandidateRounds> sides = run_rounds(
      2, [this](std::size_t side) { return side == 0 ? run_ours() : peer_.run(settings_, 0); },
      {.rounds_max = job_.pairs, .failure_ends = true, .interrupted = [this] {
         return interrupted();
       }});
  for (const CandidateRounds& side : sides) {
    if (side.refusal) {
      return *side.refusal;
    }
  }
  const std::vector<MeasuredRun>& ours = sides.front().runs;
  JobResult result = std::move(ours_[median_run(ours)]);
  result.interrupted = interrupted();
  if (!ours.empty()) {
    result.pair = compare_runs(ours, sides.back().runs);
    result.pair->peer = peer_.name;
    result.pair->peer_settings = peer_.settings[settings_];
  }
  return result;
}

std::vector<JobResult> run_reported(const Job& job, const PairedRunOptions& options) {
  Result<JobResult> result = run_pair(job, options);
  if (result.has_error()) {
    JobResult failed;
    failed.name = job.name;
    failed.fail(result.error());
    return {failed};
  }
  result->job = 0;
  result->group = 0;
  return {std::move(*result)};
}

}  // namespace

Result<JobResult> run_pair(const Job& job, const PairedRunOptions& options) {
  return PairedRun(job, options).run();
}

Result<std::vector<JobResult>> run_with_peers(const std::vector<Job>& jobs,
                                              const PairedRunOptions& options) {
  std::vector<JobResult> results;
  for (auto job = jobs.begin(); job != jobs.end();) {
    const auto peer =
        std::find_if(job, jobs.end(), [](const Job& next) { return next.peer != Peer::kNone; });
    const bool is_pair = job == peer;
    Result<std::vector<JobResult>> some =
        is_pair ? run_reported(*job, options) : run_benchmark({job, peer}, options.benchmark);
    PENSTOCK_TRY(some);
    const std::uint32_t group = results.empty() ? 0 : results.back().group + 1;
    for (JobResult& result : *some) {
      result.group += group;
      result.job += static_cast<std::size_t>(job - jobs.begin());
      results.push_back(std::move(result));
    }
    job = is_pair ? job + 1 : peer;
  }
  return results;
}

}  // namespace penstock::bench
