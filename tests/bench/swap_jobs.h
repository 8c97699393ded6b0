#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "alloc/bytes.h"
#include "bench/workload/workload_run.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {

/// A model of `layers` layers of three tensors of 1 to 3 MiB, behind an embedding of 8 MiB.
inline std::string write_inventory(const TempDirectory& directory, int layers) {
  std::string text = R"({"tensors":[{"name":"embed","dtype":"bf16","shape":[4194304]})";
  for (int layer = 0; layer < layers; ++layer) {
    for (const int megabytes : {2, 1, 3}) {
      text += fmt::format(R"(,{{"name":"layers.{}.w{}","dtype":"bf16","shape":[{},524288]}})",
                          layer, megabytes, megabytes);
    }
  }
  const std::string path = directory / "model.json";
  std::ofstream(path) << text << "]}";
  return path;
}

/// 1000 MiB/s to read, 500 to write: a MiB in one and in two milliseconds.
inline SimulatedDrive round_drive() {
  return {1000 * kMiB, 500 * kMiB, 80'000, false};
}

inline Job swap_job(const std::string& inventory, Phase phase) {
  Job job;
  job.name = "test";
  job.workload = Workload::kSwap;
  job.inventory = inventory;
  job.phase = phase;
  job.simulated = round_drive();
  job.max_pinned = 16 * kMiB;
  job.ram = 0;
  job.verify = true;
  return job;
}

inline JobResult run_job(const Job& job) {
  JobResult result;
  RunControl control;
  const std::unique_ptr<WorkloadRun> run = make_workload_run(job, 0);
  Result<void> done = run->prepare(control);
  if (done.has_value()) {
    done = run->run(control, result);
  }
  EXPECT_TRUE(done.has_value()) << done.error().message;
  return result;
}

/// Every figure of a result to its last digit.
inline std::string figures(const JobResult& result) {
  std::string text = fmt::format("{} {} {}", result.elapsed_ns, result.cpu.user_seconds,
                                 result.cpu.system_seconds);
  for (const DirectionResult* const one : {&result.read, &result.write}) {
    text += fmt::format("\n{} {} {}:", one->io_bytes, one->total_ios, one->runtime_ns);
    text += fmt::format(" {} {}", one->clat.mean(), one->clat.standard_deviation());
    for (const double percent : {0.0, 1.0, 10.0, 50.0, 90.0, 99.0, 100.0}) {
      text += fmt::format(" {}", one->clat.percentile(percent));
    }
  }
  for (const Sample& sample : result.courses.at(0)) {
    text += fmt::format(" {}+{}@{}", sample.read_bytes, sample.write_bytes, sample.at_ns);
  }
  if (const auto& swap = result.swap) {
    text += fmt::format("\n{} {} {} {} {} {} {} {} {} {} {} {}", swap->stall_ns, swap->overlap(),
                        swap->hits, swap->late, swap->misses, swap->pinned_bytes,
                        swap->peak_live_bytes, swap->pool_waits, swap->padding_bytes,
                        swap->read_bytes, swap->write_bytes, swap->cpu_ms_per_gb(result.cpu));
  }
  return text;
}

}  // namespace penstock::bench
