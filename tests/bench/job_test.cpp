// Keys, job files and command lines. Two tables hold what each key takes and refuses, and what is
// wrong with broken files.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "alloc/bytes.h"
#include "bench/job/job_file.h"
#include "bench/job/job_key.h"
#include "bench/job/job_value.h"
#include "tests/fuzz/sentence.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<Job> good(Result<std::vector<Job>> jobs) {
  EXPECT_TRUE(jobs.has_value()) << jobs.error().message;
  return jobs.has_value() ? std::move(*jobs) : std::vector<Job>(1);
}
std::vector<Job> jobs_of(std::string_view text) {
  return good(parse_jobs(text, "a.job"));
}
std::vector<Job> command_jobs(const std::vector<std::string>& keys,
                              const std::vector<std::string>& files = {}) {
  return good(load_jobs(files, keys));
}
std::string problem(const Result<std::vector<Job>>& jobs) {
  if (jobs.has_value()) {
    return "no error";
  }
  expect_sentence(jobs.error());
  return jobs.error().message;
}
std::string problem(std::string_view text) {
  return problem(parse_jobs(text, "a.job"));
}
std::string command_problem(const std::vector<std::string>& keys) {
  return problem(load_jobs({}, keys));
}

std::vector<std::string> names(const std::vector<Job>& jobs) {
  std::vector<std::string> all;
  for (const Job& job : jobs) {
    all.push_back(job.name);
  }
  return all;
}

/// A key with a value that it takes, and one that it refuses with part of the reason.
struct Sample {
  std::string_view key;
  std::string_view value;
  std::string_view wrong;
  std::string_view reason;
};

constexpr Sample kSamples[] = {
    {"name", "x", "global", "a name is needed"},
    {"workload", "swap", "swop", "did you mean \"swap\"?"},
    {"directory", "/mnt/a b", "", "a text is needed"},
    {"filename", "a", "", "a text is needed"},
    {"size", "3g", "0%", "a share above 0%"},
    {"size", "10%", "101%", "up to 100%"},
    {"size", "10%", "nan%", "a share above 0%"},
    {"size", "64MiB", "4.3", "bytes are allowed"},
    {"io_size", "1024k", "-1", "0 bytes and more"},
    {"unlink", "1", "2", "0 and 1 are allowed"},
    {"ioengine", "io_uring", "urnig", "did you mean \"uring\"?"},
    {"ioengine", "libaio", "mmap", "uring, aio, threads"},
    {"ioengine", "sim", "sim:read=0", "bytes per second from 1 on"},
    {"ioengine", "sim:latency=3ms", "sim:latency=fast", "a whole number with d, h"},
    {"ioengine", "sim:clock=real", "sim:speed=3g", "parts of a drive"},
    {"iodepth", "32", "0", "1 to 65536 are allowed"},
    {"direct", "1", "true", "0 and 1 are allowed"},
    {"fixedbufs", "1", "2", "0 and 1 are allowed"},
    {"bs", "64k", "0", "1 to 1073741824"},
    {"rw", "readwrite", "randread", "fio's work"},
    {"rwmixread", "70", "101", "0 to 100 are allowed"},
    {"rate", "100m", "0", "1 bytes and more"},
    {"numjobs", "4", "0", "1 to 4096 are allowed"},
    {"cpus_allowed", "0-3,6", "3-0", "numbers of CPUs"},
    {"verify", "1", "crc32c", "0 and 1 are allowed"},
    {"runtime", "120", "1:30", "or without a unit in seconds"},
    {"time_based", "1", "true", "0 and 1 are allowed"},
    {"ramp_time", "500ms", "1.5s", "or without a unit in seconds"},
    {"loops", "3", "0", "1 to 4294967295 are allowed"},
    {"stonewall", "1", "2", "0 and 1 are allowed"},
    {"group_reporting", "1", "2", "0 and 1 are allowed"},
    {"inventory", "model.json", "", "a text is needed"},
    {"config", "ds.json", "", "a text is needed"},
    {"phase", "train", "trian", "did you mean \"train\"?"},
    {"compute", "sleep:20ms/GB", "soon", "a time per tensor such as 5ms"},
    {"max_pinned", "64MB", "64 gigs", "64MB (of 1000)"},
    {"ram", "8GiB", "much", "bytes and more are allowed"},
    {"lookahead", "1.5g", "-1", "bytes and more are allowed"},
    {"integrity", "sampled", "sample", "did you mean \"sampled\"?"},
    {"trace", "t.bin", "", "a text is needed"},
    {"pair", "fio", "foo", "did you mean \"fio\"?"},
    {"pairs", "20", "0", "1 to 10000 are allowed"},
};

TEST(JobKeyTest, EachTakesItsValuesAndRefusesOthers) {
  std::set<std::string_view> tried;
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(fmt::format("{}={}", sample.key, sample.wrong));
    tried.insert(sample.key);
    const JobKey* key = find_job_key(sample.key);
    ASSERT_NE(key, nullptr);
    Job job;
    EXPECT_EQ(key->read(sample.value, job).value_or(""), "");
    const Refusal refusal = key->read(sample.wrong, job);
    EXPECT_THAT(refusal.value_or("no error"), HasSubstr(std::string(sample.reason)));
  }
  EXPECT_EQ(tried.size(), job_keys().size()) << "each key has a sample";
}

TEST(JobKeyTest, ValuesMeanWhatTheySay) {
  const Job raw = jobs_of(
      "[x]\nbs=64k\nsize=3g\nio_size=1m\nrw=rw\nrate=10MB\ncpus_allowed=1-2,5\nruntime=2m\n"
      "time_based\nioengine=uring\nsize=25%\n")[0];
  EXPECT_EQ(raw.raw_block_bytes(), 64 * kKiB);
  EXPECT_EQ(raw.size, 0U) << "a share takes the place of bytes";
  EXPECT_EQ(raw.size_percent, 25);
  EXPECT_EQ(raw.direction, (Direction{true, true}));
  EXPECT_EQ(raw.rate, 10'000'000U);
  EXPECT_EQ(CPU_COUNT(&*raw.cpus_allowed), 3);
  EXPECT_TRUE(CPU_ISSET(5, &*raw.cpus_allowed));
  EXPECT_EQ(raw.runtime_ns, 120 * kSecondNs);
  EXPECT_EQ(raw.engine, EngineKind::kUring);
  const Job swap = jobs_of(
      "[x]\nworkload=swap\ninventory=m\nioengine=sim:read=3.5g,latency=80us\ncompute=20ms/GB\n")[0];
  EXPECT_EQ(swap.simulated, (SimulatedDrive{7 * kGiB / 2, 3 * kGiB, 80'000}));
  EXPECT_EQ(swap.compute, (Compute{20'000'000, Compute::Per::kGigabyte, true}));
  EXPECT_EQ(jobs_of("[x]\nruntime=5\nruntime=0\nio_size=4k\nio_size=0\n")[0].io_size, std::nullopt);
}

TEST(JobKeyTest, PsyncIsOneRequestAtATime) {
  EXPECT_TRUE(jobs_of("[x]\nioengine=psync\n")[0].synchronous);
  EXPECT_FALSE(jobs_of("[x]\nioengine=psync\nioengine=threads\n")[0].synchronous);
}

TEST(JobKeyTest, AnUpdateIsTheStepAlone) {
  const std::vector<Job> jobs =
      jobs_of("[global]\nworkload=swap\ninventory=m\n[a]\nphase=train\n[b]\nworkload=update\n");
  EXPECT_EQ(jobs[0].phase, Phase::kTrain);
  EXPECT_EQ(jobs[1].phase, Phase::kStep);
  EXPECT_THAT(problem("[a]\nworkload=update\ninventory=m\nphase=train\n"),
              HasSubstr("phase in a.job, line 4 means nothing to workload=update"));
  for (const char* gone : {"backward", "step"}) {
    EXPECT_THAT(problem(fmt::format("[a]\nworkload=swap\ninventory=m\nphase={}\n", gone)),
                HasSubstr(fmt::format("is \"{}\"; forward, train, generate are allowed", gone)));
  }
}

TEST(JobNumberTest, TimesAreAsFioReadsThem) {
  const auto time = [](std::string_view text, std::uint64_t bare) {
    std::uint64_t ns = 0;
    return read_time(text, bare, ns) ? std::optional<std::uint64_t>() : ns;
  };
  EXPECT_EQ(time("30", kSecondNs), 30 * kSecondNs);
  EXPECT_EQ(time("30", kMicrosecondNs), 30 * kMicrosecondNs);
  EXPECT_EQ(time("5m", 1), 300 * kSecondNs);
  EXPECT_EQ(time("80us", 1), 80 * kMicrosecondNs);
  for (const char* text : {"", "s", "1.5s", "1:30", "10 s", "9999999999999h"}) {
    EXPECT_EQ(time(text, 1), std::nullopt) << text;
  }
}

TEST(JobFileTest, GlobalSectionsHoldForTheJobsBelowThem) {
  const std::vector<Job> jobs = jobs_of(
      "[global]\nbs=4k\niodepth=2\n[a]\niodepth=4\n[global]\nbs=8k\n[b]\n[c]\nblocksize=1m\n[d]\n");
  EXPECT_THAT(names(jobs), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(jobs[0].raw_block_bytes(), 4 * kKiB);
  EXPECT_EQ(jobs[1].raw_block_bytes(), 8 * kKiB);
  EXPECT_EQ(jobs[2].raw_block_bytes(), kMiB);
  EXPECT_EQ(jobs[3].iodepth, 2U);
  EXPECT_EQ(jobs[2].given.at("bs"), "1m") << "under its first name";
}

TEST(JobFileTest, BlanksAndCommentsDoNotCount) {
  const Job job = jobs_of(
      "; one\n  # two\n\n [ a job ]  ; three\r\n\tbs = 4k   ; four\r\niodepth=8 # five\n"
      "directory=/a;b#c")[0];
  EXPECT_EQ(job.name, "a job");
  EXPECT_EQ(job.iodepth, 8U);
  EXPECT_EQ(job.directory, "/a;b#c") << "a comment begins after a blank";
  EXPECT_EQ(jobs_of("[a]b]\n")[0].name, "a]b");
  EXPECT_EQ(jobs_of("[a]\nname=b\n")[0].name, "b");
  EXPECT_EQ(jobs_of("[global]\nname=g\n[a]\n")[0].name, "a") << "not all of them";
}

TEST(JobFileTest, TheEnvironmentIsPutIn) {
  ::setenv("PENSTOCK_JOB_TEST", "64", 1);
  EXPECT_EQ(jobs_of("[x]\nbs=${PENSTOCK_JOB_TEST}k\n")[0].raw_block_bytes(), 64 * kKiB);
  EXPECT_EQ(command_jobs({"--size=${PENSTOCK_JOB_TEST}m"})[0].size, 64 * kMiB);
  ::setenv("PENSTOCK_JOB_TEST", "a\nb", 1);
  EXPECT_THAT(problem("[x]\ndirectory=${PENSTOCK_JOB_TEST}\n"),
              HasSubstr("a.job, line 2: directory holds a control character"));
  ::unsetenv("PENSTOCK_JOB_TEST");
}

TEST(JobFileTest, SharedKeysReachTheWorkloadsTheyMeanSomethingTo) {
  const std::vector<Job> jobs =
      jobs_of("[global]\nrw=write\ninventory=m.json\nsize=1g\n[a]\n[b]\nworkload=swap\n");
  EXPECT_TRUE(jobs[0].direction.writes);
  EXPECT_TRUE(jobs[0].inventory.empty());
  EXPECT_FALSE(jobs[1].direction.writes);
  EXPECT_EQ(jobs[1].inventory, "m.json");
}

TEST(JobFileTest, MistakesAreSentences) {
  ::unsetenv("PENSTOCK_JOB_TEST");
  const std::pair<const char*, const char*> mistakes[] = {
      {"", "a.job has no job: a section such as [read] is needed"},
      {"[global]\nbs=4k\n", "a.job has no job"},
      {"bs=4k\n[x]\n", "a.job, line 1: \"bs=4k\" stands before the first section"},
      {"[x\n", "a.job, line 1: \"[x\" is no section"},
      {"[]\n", "\"[]\" is no section"},
      {"[x]\n=4\n", "a.job, line 2: \"=4\" has no key"},
      {"[x]\niodpeth=3\n", "iodpeth in a.job, line 2 is not a key of a job; did you mean"},
      {"[x]\nbssplit=4k/10\n", "bssplit in a.job, line 2 is not a key of a job"},
      {"[x]\ndirect\n", "direct in a.job, line 2 needs a value: direct=…"},
      {"[x]\nbs=${4k\n", "bs has a ${ without its }"},
      {"[x]\nbs=${PENSTOCK_JOB_TEST}\n", "variable \"PENSTOCK_JOB_TEST\", which is not set"},
      {"[x]\ninventory=m\n", "line 2 means nothing to workload=raw; it is for swap, update"},
      {"[x]\nrw=read\nworkload=swap\ninventory=m\n", "nothing to workload=swap; it is for raw"},
      {"[x]\ndirect=1\nbs=1000\n", "job \"x\" in a.job, line 1: bs=1000 with direct=1"},
      {"[x]\nsize=2k\n", "size=2048 is less than one request"},
      {"[x]\nsize=1m\nio_size=1k\n", "io_size=1024 is less than one request"},
      {"[x]\nrw=write\n", "say how large it is, such as size=1g"},
      {"[x]\ntime_based\n", "time_based without a runtime"},
      {"[x]\nioengine=sim\n", "ioengine=sim is for workload=swap"},
      {"[x]\nworkload=swap\n", "workload=swap needs a model"},
      {"[x]\nworkload=replay\n", "workload=replay needs a trace"},
      {"[x]\nworkload=replay\ntrace=t\npair=fio\n", "pair in a.job, line 4 means nothing"},
      {"[x]\nworkload=swap\ninventory=m\npair=fio\nioengine=sim\n", "pair= needs a drive"},
      {"[x]\nworkload=swap\ninventory=m\npair=fio\nverify\n", "leave out one of verify="},
      {"[x]\nworkload=swap\ninventory=m\npair=deepspeed\nnumjobs=2\n", "leave out runtime"},
      {"[x]\nworkload=swap\ninventory=m\nioengine=sim:read=1g\nnumjobs=2\n", "of one thread"},
      {"[x]\nfilename=a:b\n", "a colon divides names"},
  };
  for (const auto& [text, part] : mistakes) {
    EXPECT_THAT(problem(text), HasSubstr(part)) << text;
  }
  std::string many;
  for (int i = 0; i < 1025; ++i) {
    many += "[x]\n";
  }
  EXPECT_THAT(problem(many), HasSubstr("a.job has more than 1024 jobs"));
}

TEST(CommandLineTest, ANameBeginsAJobAndWhatIsBeforeHoldsForAll) {
  const std::vector<Job> jobs = command_jobs(
      {"--bs=1m", "--size=8m", "--name=a", "--rw=write", "--name=b", "--stonewall", "--bs=4k"});
  EXPECT_THAT(names(jobs), ElementsAre("a", "b"));
  EXPECT_EQ(jobs[0].raw_block_bytes(), kMiB);
  EXPECT_TRUE(jobs[0].direction.writes && !jobs[0].stonewall);
  EXPECT_EQ(jobs[1].raw_block_bytes(), 4 * kKiB);
  EXPECT_TRUE(jobs[1].direction.reads && jobs[1].stonewall);
  EXPECT_THAT(names(command_jobs({"--rw=read", "--size=1m"})), ElementsAre("raw"));
  EXPECT_THAT(names(command_jobs({"--inventory=m", "--workload=swap"})), ElementsAre("swap"));
}

TEST(CommandLineTest, KeysGoOverThoseOfFiles) {
  const TempDirectory directory;
  std::ofstream(directory / "a.job") << "[a]\nbs=64k\n[b]\niodepth=2\n";
  const std::vector<Job> jobs =
      command_jobs({"--bs=8k", "--iodepth=3", "--name=more", "--bs=16k"}, {directory / "a.job"});
  EXPECT_THAT(names(jobs), ElementsAre("a", "b", "more"));
  EXPECT_EQ(jobs[0].raw_block_bytes(), 8 * kKiB);
  EXPECT_EQ(jobs[1].iodepth, 3U);
  EXPECT_EQ(jobs[2].raw_block_bytes(), 16 * kKiB);
  EXPECT_THAT(problem(load_jobs({directory / "a.job"}, {"--trace=t"})),
              HasSubstr("--trace means nothing to the workload of any of the jobs"));
}

TEST(CommandLineTest, MistakesAreSentences) {
  EXPECT_THAT(command_problem({}), HasSubstr("there is no job: give a job file"));
  for (const char* key : {"bs=4k", "--", "--=4"}) {
    EXPECT_THAT(command_problem({key}), HasSubstr("is not --key=value"));
  }
  EXPECT_THAT(command_problem({"--bs=5x"}),
              StartsWith("--bs is \"5x\"; 1 to 1073741824 are allowed"));
  EXPECT_THAT(command_problem({"--name"}), HasSubstr("--name needs a value"));
  EXPECT_THAT(command_problem({"--name="}), HasSubstr("a name is needed"));
  const Result<std::vector<Job>> missing = load_jobs({"/no/such.job"}, {});
  EXPECT_EQ(missing.error().system_errno(), ENOENT);
}

// docs/BENCH.md has a row for every key, with its other name and the workloads that it is for.

std::string workloads_of(const JobKey& key) {
  const std::string names(key.workloads);
  return names == "raw, swap, update, replay" ? "all" : names;
}

TEST(JobDocumentTest, ListsEveryKey) {
  std::ifstream document(PENSTOCK_DOCUMENT);
  ASSERT_TRUE(document.is_open()) << PENSTOCK_DOCUMENT;
  std::set<std::string> rows;  // the first cell and the last one
  for (std::string line; std::getline(document, line);) {
    rows.insert(line.substr(0, line.find(" |")) +
                line.substr(std::min(line.rfind("| "), line.size())));
  }
  for (const JobKey& key : job_keys()) {
    const std::string alias = key.alias.empty() ? "" : fmt::format(", `{}`", key.alias);
    const std::string row = fmt::format("| `{}`{}| {} |", key.name, alias, workloads_of(key));
    EXPECT_EQ(rows.count(row), 1U) << row;
  }
}

}  // namespace
}  // namespace penstock::bench
