#include "bench/pair/deepspeed_peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "alloc/bytes.h"
#include "bench/process/child_process.h"
#include "io/file.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

using testing::HasSubstr;

class DeepSpeedHandlePeerTest : public testing::Test {
 protected:
  Job job() const {
    Job job;
    job.name = "deep";
    job.directory = directory_.path();
    job.filename = "data";
    job.size = 8 * kMiB;
    job.direct = true;
    job.engine = EngineKind::kUring;  // without one it is psync, of depth 1
    job.iodepth = 4;
    job.block_bytes = kMiB;
    job.peer = Peer::kDeepSpeed;
    return job;
  }
  void make_file() const {
    std::ofstream(directory_ / "data") << std::string(8 * kMiB, 'x');
    const auto file = File::open(directory_ / "data", File::Access::kRead);
    ASSERT_TRUE(file.has_value());
    if (!file->direct().supported) {
      GTEST_SKIP() << file->direct().reason;
    }
    auto python =
        ChildProcess::start({{"python3", "-c", "import deepspeed.ops.op_builder"}, {}, "python3"});
    if (python.has_error() || python->finish().has_error()) {
      GTEST_SKIP() << "no python3 with DeepSpeed";
    }
  }

  TempDirectory directory_;
};

TEST_F(DeepSpeedHandlePeerTest, WhatItsHandleCannotDo) {
  Job mixed = job();
  mixed.direction = {.reads = true, .writes = true};
  Job threads = job();
  threads.numjobs = 2;
  Job timed = job();
  timed.runtime_ns = 1;
  Job buffered = job();
  buffered.direct = false;
  for (const Job& wrong : {mixed, threads, timed, buffered}) {
    const auto peer = make_deepspeed_peer(wrong);
    ASSERT_TRUE(peer.has_error());
    EXPECT_THAT(peer.error().message, HasSubstr("DeepSpeed's aio handle cannot"));
  }
}

TEST_F(DeepSpeedHandlePeerTest, AFileThatIsNotThere) {
  Job all = job();
  all.size = 0;
  const auto peer = make_deepspeed_peer(all);
  ASSERT_TRUE(peer.has_error());
  EXPECT_THAT(peer.error().message, HasSubstr("data has 0 bytes of its own"));
}

TEST_F(DeepSpeedHandlePeerTest, ReadsAndWritesRunAfterRun) {
  make_file();
  if (IsSkipped() || HasFatalFailure()) {
    return;
  }
  for (const bool writes : {false, true}) {
    Job work = job();
    work.direction = {.reads = !writes, .writes = writes};
    const auto peer = make_deepspeed_peer(work);
    ASSERT_TRUE(peer.has_value()) << peer.error().message;
    EXPECT_THAT(peer->settings[0], HasSubstr("\"queue_depth\":4"));
    for (const std::uint64_t io_size : {0 * kMiB, 16 * kMiB}) {
      for (std::size_t candidate = 0; candidate < peer->settings.size(); ++candidate) {
        const auto run = peer->run(candidate, io_size);
        ASSERT_TRUE(run.has_value()) << run.error().message;
        EXPECT_EQ(writes ? run->write_bytes : run->read_bytes, io_size == 0 ? 8 * kMiB : io_size);
      }
    }
  }
}

TEST(DeepSpeedAnswerTest, ARun) {
  const MeasuredRun run =
      parse_deepspeed_answer(
          R"({"read_bytes": 2000, "write_bytes": 7, "seconds": 0.5, "cpu_seconds": 0.25})")
          .value();
  EXPECT_EQ(run.read_bytes, 2000U);
  EXPECT_EQ(run.write_bytes, 7U);
  EXPECT_DOUBLE_EQ(run.seconds, 0.5);
  EXPECT_DOUBLE_EQ(run.cpu_seconds, 0.25);
}

TEST(DeepSpeedAnswerTest, AnError) {
  const auto run = parse_deepspeed_answer(R"({"error": "OSError: no such file"})");
  ASSERT_TRUE(run.has_error());
  EXPECT_THAT(run.error().message, HasSubstr("OSError: no such file"));
}

TEST(DeepSpeedAnswerTest, None) {
  for (const char* const line :
       {"", "x", "7", "[]", "{}",
        R"({"read_bytes": "many", "write_bytes": 0, "seconds": 1, "cpu_seconds": 1})",
        R"({"read_bytes": -1, "write_bytes": 0, "seconds": 1, "cpu_seconds": 1})",
        R"({"read_bytes": 0, "write_bytes": 0, "seconds": 1, "cpu_seconds": 1})"}) {
    EXPECT_TRUE(parse_deepspeed_answer(line).has_error()) << line;
  }
}

}  // namespace
}  // namespace penstock::bench
