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

// One thread of a trial, with an engine and a path of its own.
struct DriveTrial::Worker {
  const RawFile* file = nullptr;
  std::span<std::byte> memory = {};

  // What has come of it.
  Result<void> outcome = {};
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;

  // On the thread that runs: an engine belongs to the one that made it.
  void work(const DriveMix& mix, EngineKind engine, const TrialLoad& load, RunControl& control,
            std::barrier<>& begin) {
    const Result<std::unique_ptr<IoEngine>> made = make_engine(engine, kOurs);
    if (made.has_error()) {
      outcome = made.error();
      begin.arrive_and_wait();
      return;
    }
    (void)(*made)->register_memory(memory);  // dearer without, not wrong
    RequestLoop loop(**made, file->file(), memory, kOurRequests);
    TensorFeed feed(mix, load.read_share, kOurRequestBytes);
    const LoopPace pace{.runtime_ns = static_cast<std::uint64_t>(load.length.count())};
    begin.arrive_and_wait();
    outcome = loop.run(feed, pace, control);
    read_bytes = loop.reads().bytes;
    write_bytes = loop.writes().bytes;
  }
};

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

Result<MeasuredRun> DriveTrial::run(std::span<const std::size_t> paths, EngineKind engine,
                                    const TrialLoad& load) {
  constexpr std::uint64_t kWorkerBytes = kOurRequests * kOurRequestBytes;
  if (arena_.bytes() < paths.size() * kWorkerBytes) {
    Result<Memory> memory = PageSource::make()->allocate(paths.size() * kWorkerBytes);
    PENSTOCK_TRY(memory);
    arena_ = std::move(*memory);
    populate_pages(arena_.span());
    fill_with_noise(arena_.span(), arena_.bytes());
  }
  std::vector<Worker> workers;
  for (std::size_t at = 0; at < paths.size(); ++at) {
    workers.push_back({.file = &files_[paths[at]],
                       .memory = arena_.span().subspan(at * kWorkerBytes, kWorkerBytes)});
  }
  std::barrier<> begin(static_cast<std::ptrdiff_t>(workers.size()) + 1);
  std::vector<std::jthread> threads;
  for (Worker& worker : workers) {
    threads.emplace_back([this, &worker, engine, &load, &begin] {
      worker.work(mix_, engine, load, control_, begin);
    });
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
