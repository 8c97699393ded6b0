#include "bench/tune/drive_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <thread>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/measure/cpu_clock.h"
#include "bench/tune/tensor_feed.h"
#include "bench/workload/mixed.h"
#include "bench/workload/raw_file.h"
#include "bench/workload/request_loop.h"
#include "bench/workload/scratch_directory.h"

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Our engine's own request, queue and what it has under way: what fills a drive of 10 GB/s.
constexpr IoEngineOptions kOurs{};
constexpr std::uint64_t kOurRequestBytes = 4 * kMiB;
constexpr std::uint32_t kOurRequests = 16;
constexpr std::uint64_t kDepthMax = 1024;  // of an engine

Error cancelled() {
  return system_error(ECANCELED, "the trials were interrupted");
}

Result<void> check_direct(const std::string& directory) {
  const Result<File> probe = File::create_scratch(directory);
  PENSTOCK_TRY(probe);
  if (!probe->direct().supported) {
    return system_error(EINVAL,
                        fmt::format("cannot measure {}: it has no direct I/O ({}), which stock "
                                    "DeepSpeed's swapping needs",
                                    directory, probe->direct().reason),
                        directory);
  }
  return {};
}

Result<RawFile> lay_out(const std::string& parent, std::uint64_t bytes,
                        const std::atomic<bool>& stop) {
  const Result<ScratchDirectory> directory = ScratchDirectory::make(parent, "penstock-tune");
  if (directory.has_error()) {
    Error error = directory.error();
    error.message = fmt::format("cannot measure {}: {}", parent, error.message);
    return error;
  }
  PENSTOCK_TRY(check_direct(directory->path()));
  Job job;
  job.filename = directory->path() + "/tensors";
  job.size = bytes;
  job.direct = true;
  job.engine = EngineKind::kThreads;
  job.direction = {.reads = true, .writes = true};
  Result<RawFile> file = RawFile::open(job, 0, stop);
  if (file.has_error() && file.error().system_errno() == ENOSPC) {
    return system_error(
        ENOSPC,
        fmt::format("cannot measure {}: its trial file takes {}", parent, format_bytes(bytes)),
        parent);
  }
  return file;
}

}  // namespace

// One thread of a trial with an engine of its own.
struct DriveTrial::Worker {
  const RawFile* file = nullptr;
  EngineKind engine = EngineKind::kAuto;
  IoEngineOptions options;
  TensorCut cut;
  std::uint32_t requests = 1;  // under way at once
  std::uint64_t slot_bytes = 0;
  bool registered = false;

  // What has come of it.
  std::span<std::byte> memory;
  Result<void> outcome;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;

  // On the thread that runs: an engine belongs to the one that made it.
  void work(const DriveMix& mix, const TrialLoad& load, RunControl& control, std::barrier<>& begin);
};

void DriveTrial::Worker::work(const DriveMix& mix, const TrialLoad& load, RunControl& control,
                              std::barrier<>& begin) {
  Result<std::unique_ptr<IoEngine>> made = make_engine(engine, options);
  if (made.has_error()) {
    outcome = made.error();
    begin.arrive_and_wait();
    return;
  }
  if (registered) {
    (void)(*made)->register_memory(memory);  // dearer without, not wrong
  }
  RequestLoop loop(**made, file->file(), memory, requests);
  TensorFeed feed(mix, load.read_share, cut);
  const LoopPace pace{.runtime_ns = static_cast<std::uint64_t>(load.length.count())};
  begin.arrive_and_wait();
  outcome = loop.run(feed, pace, control);
  read_bytes = loop.reads().bytes;
  write_bytes = loop.writes().bytes;
}

Result<std::unique_ptr<DriveTrial>> DriveTrial::prepare(const DriveMix& mix,
                                                        const std::vector<std::string>& paths,
                                                        RunControl& control) {
  std::unique_ptr<DriveTrial> trial(new DriveTrial(mix, control));
  for (const std::string& path : paths) {
    Result<RawFile> file = lay_out(path, mix.bytes(), control.stop);
    PENSTOCK_TRY(file);
    trial->files_.push_back(std::move(*file));
    if (control.stop) {
      return cancelled();
    }
  }
  return trial;
}

Result<MeasuredRun> DriveTrial::run_as_deepspeed(std::size_t path, const AioSettings& settings,
                                                 const TrialLoad& load) {
  const std::uint64_t largest = *std::ranges::max_element(mix_.tensors);
  const std::uint64_t part =
      align_up((largest + settings.threads - 1) / settings.threads, kBlockBytes);
  const std::uint64_t block = align_up(std::max(settings.block_bytes, kBlockBytes), kBlockBytes);
  const auto depth =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(settings.depth, 1, kDepthMax));
  std::vector<Worker> workers(settings.threads);
  for (std::uint32_t thread = 0; thread < settings.threads; ++thread) {
    Worker& worker = workers[thread];
    worker.file = &files_[path];
    worker.engine = EngineKind::kAio;
    worker.options = {static_cast<std::uint32_t>(std::min(block, kGiB)), depth};
    worker.slot_bytes = settings.overlap_events ? part : std::min(part, block * depth);
    worker.cut = {thread, settings.threads, worker.slot_bytes};
  }
  return run(workers, load);
}

Result<MeasuredRun> DriveTrial::run_as_penstock(std::span<const std::size_t> paths,
                                                EngineKind engine, const TrialLoad& load) {
  std::vector<Worker> workers(paths.size());
  for (std::size_t index = 0; index < paths.size(); ++index) {
    Worker& worker = workers[index];
    worker.file = &files_[paths[index]];
    worker.engine = engine;
    worker.options = kOurs;
    worker.slot_bytes = kOurRequestBytes;
    worker.cut = {0, 1, kOurRequestBytes};
    worker.requests = kOurRequests;
    worker.registered = true;
  }
  return run(workers, load);
}

// The same pages for every trial: fresh ones can cost more than the trial.
Result<void> DriveTrial::hand_out_memory(std::span<Worker> workers) {
  std::uint64_t bytes = 0;
  for (const Worker& worker : workers) {
    bytes += worker.slot_bytes * worker.requests;
  }
  if (arena_.bytes() < bytes) {
    Result<Memory> memory = PageSource::make()->allocate(bytes);
    PENSTOCK_TRY(memory);
    arena_ = std::move(*memory);
    populate_pages(arena_.span());
    fill_with_noise(arena_.span(), bytes);
  }
  std::span<std::byte> rest = arena_.span();
  for (Worker& worker : workers) {
    worker.memory = rest.first(worker.slot_bytes * worker.requests);
    rest = rest.subspan(worker.memory.size());
  }
  return {};
}

Result<MeasuredRun> DriveTrial::run(std::span<Worker> workers, const TrialLoad& load) {
  PENSTOCK_TRY(hand_out_memory(workers));
  std::barrier<> begin(static_cast<std::ptrdiff_t>(workers.size()) + 1);
  std::vector<std::jthread> threads;
  for (Worker& worker : workers) {
    threads.emplace_back(
        [this, &worker, &load, &begin] { worker.work(mix_, load, control_, begin); });
  }
  begin.arrive_and_wait();
  const Clock::time_point began = Clock::now();
  const CpuTime before = process_cpu_time();
  threads.clear();  // joins
  MeasuredRun run;
  run.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  run.cpu_seconds = (process_cpu_time() - before).seconds();
  for (const Worker& worker : workers) {
    PENSTOCK_TRY(worker.outcome);
    run.read_bytes += worker.read_bytes;
    run.write_bytes += worker.write_bytes;
  }
  return run.bytes() == 0 || control_.stop ? Result<MeasuredRun>(cancelled())
                                           : Result<MeasuredRun>(run);
}

}  // namespace penstock::bench
