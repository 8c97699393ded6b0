#include "bench/job/job_echo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "bench/job/job_key.h"
#include "tests/bench/job_fixture.h"

namespace penstock::bench {
namespace {

using testing::HasSubstr;

/// Values that a key may have, good and bad: what the key refuses is not used.
std::string any_value() {
  return *rc::gen::oneOf(
      rc::gen::map(rc::gen::arbitrary<std::uint32_t>(),
                   [](std::uint32_t number) { return std::to_string(number); }),
      rc::gen::map(rc::gen::inRange(0, 120), [](int number) { return std::to_string(number); }),
      rc::gen::element<std::string>(
          "0", "1", "4k", "1m", "3g", "512", "30s", "5m", "80us", "1h", "4k,64k", ",8k", "8k,",
          "4k/10:64k/50:32k/", "4k/,8k/20:1m/", ",4k/50:8k/", "read", "write", "randrw", "rw",
          "uring", "libaio", "psync", "null", "sim:read=1g,write=7MB,latency=3us", "md5", "crc32c",
          "none", "native", "keep", "99.0:99.9", "1e-3:0.1:33.333333333333336", "a:b\\:c", "x",
          "it's", "$HOME `x` \"q\"", "\\", "a\\\\:b:c\\", "forward", "train", "generate", "full",
          "5ms", "sleep:20ms/GB", "spin:7ns", "fio", "deepspeed", "swap", "update", "replay"));
}

/// A job of any keys with any values that are taken; nothing where they make no sense together.
std::optional<Job> any_job() {
  Job job;
  job.name = *rc::gen::element<std::string>("x", "a job", "a]b", "it's", ";x", "1");
  job.workload =
      *rc::gen::element(Workload::kRaw, Workload::kSwap, Workload::kUpdate, Workload::kReplay);
  for (int i = *rc::gen::inRange(0, 40); i > 0; --i) {
    const JobKey& key = job_keys()[*rc::gen::inRange<std::size_t>(2, job_keys().size())];
    Job changed = job;
    if (key.workloads.contains(job.workload) && !key.read(any_value(), changed)) {
      job = changed;
    }
  }
  const bool sensible = load_jobs({}, command_keys(job)).has_value();
  return sensible ? std::optional(job) : std::nullopt;
}

RC_GTEST_PROP(JobEchoProperty, WhatIsDescribedIsTheSameJob, ()) {
  const std::optional<Job> job = any_job();
  RC_PRE(job.has_value());
  const std::string text = describe_job(*job);
  const Result<std::vector<Job>> again = parse_jobs(text, "echo.job");
  RC_ASSERT(again.has_value());
  RC_ASSERT(again->size() == 1U);
  RC_ASSERT(again->front() == *job);
  RC_ASSERT(describe_job(again->front()) == text);
}

RC_GTEST_PROP(JobEchoProperty, WhatTheCommandLineSaysIsTheSameJob, ()) {
  const std::optional<Job> job = any_job();
  RC_PRE(job.has_value());
  const std::vector<Job> again = load_jobs({}, command_keys(*job)).value();
  RC_ASSERT(again.size() == 1U);
  RC_ASSERT(again.front() == *job);
}

TEST(JobEchoTest, EveryKeyOfTheWorkloadIsThere) {
  for (const char* text : {"[x]\n", "[x]\nworkload=swap\ninventory=m\n"}) {
    const Job job = test::jobs_of(text)[0];
    const std::string echo = describe_job(job);
    EXPECT_THAT(echo, testing::StartsWith("[x]\n"));
    for (const JobKey& key : job_keys()) {
      const std::string name(key.name);
      const bool there = echo.find("\n" + name + "=") != std::string::npos ||
                         echo.find("\n; " + name + " is not given: ") != std::string::npos;
      EXPECT_EQ(there, key.workloads.contains(job.workload) && name != "name") << name;
    }
  }
}

TEST(JobEchoTest, ACommandLineSaysWhatIsNotTheDefaultAndCanBePasted) {
  const Job job = test::jobs_of("[it's]\nrw=write\nsize=1g\ndirectory=/a b\nbs=4k\niodepth=8\n")[0];
  EXPECT_EQ(command_line(job),
            "penstock bench '--name=it'\\''s' '--directory=/a b' --size=1g --iodepth=8 --bs=4k "
            "--rw=write");
}

}  // namespace
}  // namespace penstock::bench
