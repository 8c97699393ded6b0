#include "bench/workload/workload_run.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "bindings/inventory/recorded_trace.h"
#include "tests/bench/swap_jobs.h"

namespace penstock::bench {
namespace {

class ReplayRun : public ::testing::Test {
 protected:
  /// The trace of one training loop and the one before it, on a simulated drive.
  std::string record() {
    Job job = swap_job(write_inventory(directory_, 1), Phase::kTrain);
    job.compute = Compute{1'500'000, Compute::Per::kTensor, true};
    const std::string path = directory_ / "trace.jsonl";
    ::setenv("PENSTOCK_TRACE", path.c_str(), 1);
    run_job(job);
    ::unsetenv("PENSTOCK_TRACE");
    return path;
  }

  static Job replay_job(const std::string& trace) {
    Job job = swap_job("", Phase::kForward);
    job.workload = Workload::kReplay;
    job.trace = trace;
    return job;
  }

  TempDirectory directory_;
};

std::size_t count(const RecordedTrace& trace, TraceOp op) {
  return static_cast<std::size_t>(
      std::ranges::count(trace.events, op, [](const TraceEvent& event) { return event.op; }));
}

TEST_F(ReplayRun, OfASimulatedRunIsThatRun) {
  const std::string path = record();
  const RecordedTrace trace = load_trace(path).value();
  const JobResult result = run_job(replay_job(path));
  EXPECT_EQ(result.read.total_ios, count(trace, TraceOp::kLease));
  EXPECT_EQ(result.write.total_ios, count(trace, TraceOp::kCommit));
  // Same drive, same engine, same gaps: to the nanosecond.
  EXPECT_EQ(result.elapsed_ns, trace.events.back().at_ns);
  EXPECT_LE(result.swap->stall_ns, trace.events.back().waited_ns);
}

TEST_F(ReplayRun, EqualsItselfToTheLastDigit) {
  Job job = replay_job(record());
  job.loops = 2;
  const std::string first = figures(run_job(job));
  EXPECT_EQ(figures(run_job(job)), first);
}

TEST_F(ReplayRun, MovesTheSameBytesOverRealFiles) {
  const std::string path = record();
  Job job = replay_job(path);
  job.lookahead = 0;  // what is read ahead and never used depends on the time
  const JobResult simulated = run_job(job);
  job.simulated.reset();
  job.directory = directory_.path();
  const JobResult real = run_job(job);
  EXPECT_EQ(real.read.total_ios, simulated.read.total_ios);
  EXPECT_EQ(real.write.total_ios, simulated.write.total_ios);
  EXPECT_EQ(real.write.io_bytes, simulated.write.io_bytes);
}

TEST_F(ReplayRun, TakesComputeInPlaceOfTheGaps) {
  Job job = replay_job(record());
  job.compute = Compute{0, Compute::Per::kTensor, true};
  const JobResult hurried = run_job(job);
  job.compute->ns = 50'000'000;
  const JobResult slow = run_job(job);
  EXPECT_GE(slow.elapsed_ns, slow.read.total_ios * 50'000'000);
  EXPECT_LT(hurried.elapsed_ns, slow.elapsed_ns);
}

TEST_F(ReplayRun, AGetMayComeBackAsItWasBeforeAPutOrAForget) {
  Job job = replay_job(directory_ / "trace.jsonl");
  job.verify = true;
  std::string text = R"({"schema": "penstock.trace/1"}
{"t":1,"w":0,"op":"open_namespace","space":1,"name":"a"}
{"t":1,"w":0,"op":"declare","tensor":1,"space":1,"name":"a","dtype":"u8","shape":[9],"role":"param"}
)";
  for (const char* op : {"put", "get", "put", "lease", "forget", "release"}) {
    text += fmt::format("{{\"t\":1,\"w\":0,\"op\":\"{}\",\"tensor\":1}}\n", op);
  }
  std::ofstream(job.trace) << text;
  EXPECT_EQ(run_job(job).read.total_ios, 1U);
}

TEST_F(ReplayRun, SaysWhichTraceIsWrong) {
  RunControl control;
  auto run = make_workload_run(replay_job(directory_ / "none"), 0);
  const Result<void> prepared = run->prepare(control);
  ASSERT_TRUE(prepared.has_error());
  EXPECT_EQ(prepared.error().system_errno(), ENOENT);
}

}  // namespace
}  // namespace penstock::bench
