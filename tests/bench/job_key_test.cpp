#include "bench/job/job_key.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/bench/job_fixture.h"

namespace penstock::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A key with a value, how it is written again, and a value that it refuses with part of the
/// reason.
struct Sample {
  std::string_view key;
  std::string_view value;
  std::string_view written;
  std::string_view wrong;
  std::string_view reason;
};

constexpr Sample kSamples[] = {
    {"name", "x", "x", "global", "a name is needed"},
    {"workload", "swap", "swap", "swop", "did you mean \"swap\"?"},
    {"directory", "/mnt/a b", "/mnt/a b", "", "a text is needed"},
    {"filename", "a\\:b:c", "a\\:b:c", ":", "at least one file"},
    {"nrfiles", "8", "8", "0", "1 to 65536 are allowed"},
    {"size", "3g", "3g", "20%", "shares of a drive or file are not supported"},
    {"io_size", "1024k", "1m", "50%", "shares of a drive"},
    {"offset", "512", "512", "-1", "a whole number is allowed"},
    {"fallocate", "keep", "posix", "2", "none, native, posix, keep, truncate"},
    {"invalidate", "0", "0", "no", "0 and 1 are allowed"},
    {"unlink", "1", "1", "2", "0 and 1 are allowed"},
    {"ioengine", "io_uring", "uring", "urnig", "did you mean \"uring\"?"},
    {"iodepth", "0x20", "32", "0", "1 to 65536 are allowed"},
    {"direct", "1", "1", "true", "0 and 1 are allowed"},
    {"fixedbufs", "1", "1", "2", "0 and 1 are allowed"},
    {"bs", "4096,64k", "4k,64k", "0", "1 byte to 1g"},
    {"bssplit", "4k/10:64k/", "4k/10:64k/90", "4k/60:8k/60", "make 120 together"},
    {"rw", "readwrite", "rw", "raed", "did you mean \"read\"?"},
    {"rwmixread", "70", "70", "101", "0 to 100 are allowed"},
    {"numjobs", "4", "4", "0", "1 to 4096 are allowed"},
    {"thread", "1", "1", "yes", "0 and 1 are allowed"},
    {"fsync", "32", "32", "4g", "0 to 4294967295 are allowed"},
    {"end_fsync", "1", "1", "2", "0 and 1 are allowed"},
    {"thinktime", "2000", "2ms", "10ns", "whole microseconds"},
    {"randseed", "0x89", "137", "abc", "a whole number is allowed"},
    {"verify", "md5", "md5", "md6", "did you mean \"md5\"?"},
    {"runtime", "120", "2m", "1:30", "or without a unit in seconds"},
    {"time_based", "1", "1", "true", "0 and 1 are allowed"},
    {"ramp_time", "500ms", "500ms", "1.5s", "or without a unit in seconds"},
    {"loops", "3", "3", "0", "1 to 4294967295 are allowed"},
    {"stonewall", "1", "1", "2", "0 and 1 are allowed"},
    {"group_reporting", "1", "1", "2", "0 and 1 are allowed"},
    {"percentile_list", "99.9:50", "50:99.9", "101", "1 to 20 numbers from 0 to 100"},
    {"write_bw_log", "log", "log", "", "a prefix of files' names"},
    {"inventory", "model.json", "model.json", "", "a text is needed"},
    {"config", "ds.json", "ds.json", "", "a text is needed"},
    {"phase", "train", "train", "trian", "did you mean \"train\"?"},
    {"compute", "sleep:20ms/GB", "sleep:20ms/GB", "soon", "a time per tensor such as 5ms"},
    {"max_pinned", "64MB", "62500k", "64 gigs", "64MB (of 1000)"},
    {"ram", "8GiB", "8g", "much", "bytes are allowed"},
    {"lookahead", "1.5g", "1536m", "-1", "bytes are allowed"},
    {"integrity", "sampled", "sampled", "sample", "did you mean \"sampled\"?"},
    {"trace", "t.bin", "t.bin", "", "a text is needed"},
    {"pair", "fio", "fio", "foo", "did you mean \"fio\"?"},
    {"pairs", "20", "20", "0", "1 to 10000 are allowed"},
};

TEST(JobKeyTest, EachReadsWhatItWritesAndRefusesWhatItCannotRead) {
  std::set<std::string_view> tried;
  for (const Sample& sample : kSamples) {
    SCOPED_TRACE(sample.key);
    tried.insert(sample.key);
    const JobKey* key = find_job_key(sample.key);
    ASSERT_NE(key, nullptr);
    Job job;
    const Refusal refusal = key->read(sample.value, job);
    EXPECT_FALSE(refusal.has_value()) << refusal.value_or("");
    ASSERT_EQ(key->write(job), sample.written);
    Job again;
    EXPECT_FALSE(key->read(sample.written, again).has_value());
    EXPECT_EQ(again, job) << "what is written is read as the same";
    EXPECT_NE(job, Job()) << "a sample that is the default shows nothing";
    Job other;
    EXPECT_THAT(key->read(sample.wrong, other).value_or("taken"),
                HasSubstr(std::string(sample.reason)));
  }
  EXPECT_EQ(tried.size(), job_keys().size()) << "a key without a sample";
}

TEST(JobKeyTest, ErrorsNameFileLineKeyAndValue) {
  for (const Sample& sample : kSamples) {
    const JobKey* key = find_job_key(sample.key);
    const std::string_view workload = key->workloads.contains(Workload::kRaw)      ? "raw"
                                      : key->workloads.contains(Workload::kUpdate) ? "update"
                                      : key->workloads.contains(Workload::kSwap)   ? "swap"
                                                                                   : "replay";
    EXPECT_THAT(
        test::problem(fmt::format("[x]\nworkload={}\n{}={}\n", workload, sample.key, sample.wrong)),
        AllOf(HasSubstr(fmt::format("{} in a.job, line 3 is \"{}\"; ", sample.key, sample.wrong)),
              HasSubstr(std::string(sample.reason))));
  }
}

TEST(JobKeyTest, FiosOtherNamesMeanTheSame) {
  for (const auto& [alias, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"readwrite", "rw"},
           {"blocksize", "bs"},
           {"nr_files", "nrfiles"},
           {"io_limit", "io_size"},
           {"fileoffset", "offset"},
           {"timeout", "runtime"},
           {"wait_for_previous", "stonewall"}}) {
    EXPECT_EQ(find_job_key(alias), find_job_key(name)) << alias;
    ASSERT_NE(find_job_key(alias), nullptr) << alias;
    EXPECT_EQ(find_job_key(alias)->name, name);
  }
  EXPECT_EQ(find_job_key(""), nullptr);
}

TEST(JobKeyTest, NamesAreNotTakenTwice) {
  std::set<std::string_view> names;
  for (const JobKey& key : job_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_FALSE(key.fallback.empty()) << key.name;
  }
}

TEST(JobKeyTest, UnknownKeysNameTheNearest) {
  EXPECT_THAT(test::problem("[x]\niodpeth=8\n"),
              AllOf(HasSubstr("iodpeth in a.job, line 2 is not a key of a job"),
                    HasSubstr("did you mean \"iodepth\"?")));
  EXPECT_THAT(test::problem("[x]\ncolour=8\n"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(test::problem("[x]\nbsrange=4k-8k\n"),
              HasSubstr("bsrange in a.job, line 2 is a key of fio that penstock does not have"));
  EXPECT_THAT(test::problem("[x]\noutput=a.txt\n"),
              HasSubstr("output in a.job, line 2 is an option of penstock bench (--output)"));
  EXPECT_THAT(test::command_problem({"--name=x", "--iodpeth=8"}),
              AllOf(HasSubstr("--iodpeth is not a key of a job"), HasSubstr("\"iodepth\"")));
}

TEST(JobKeyTest, OnlyFlagsStandAlone) {
  const Job job = test::jobs_of(
      "[x]\nsize=1m\nthread\ntime_based\nruntime=5\nstonewall\ngroup_reporting\nwrite_bw_log\n")[0];
  EXPECT_TRUE(job.thread && job.time_based && job.stonewall && job.group_reporting);
  EXPECT_EQ(job.write_bw_log, "x") << "the job's name";
  EXPECT_THAT(test::problem("[x]\ndirect\n"), HasSubstr("direct in a.job, line 2 needs a value"));
  EXPECT_THAT(test::command_problem({"--size"}), HasSubstr("--size needs a value: size=…"));
}

TEST(JobKeyTest, EnginesHaveTheirOwnNamesAndFios) {
  const auto engine = [](std::string_view name) {
    Job job;
    EXPECT_FALSE(find_job_key("ioengine")->read(name, job).has_value()) << name;
    return job.engine;
  };
  EXPECT_EQ(engine("uring"), EngineKind::kUring);
  EXPECT_EQ(engine("io_uring"), EngineKind::kUring);
  EXPECT_EQ(engine("aio"), EngineKind::kAio);
  EXPECT_EQ(engine("libaio"), EngineKind::kAio);
  for (const char* name : {"threads", "psync", "pvsync", "sync"}) {
    EXPECT_EQ(engine(name), EngineKind::kThreads) << name;
  }
  EXPECT_EQ(engine("null"), EngineKind::kNull);
}

TEST(JobKeyTest, ASimulatedDriveIsAnEngine) {
  const JobKey& key = *find_job_key("ioengine");
  Job job;
  EXPECT_FALSE(key.read("sim:read=3.5g,write=3g,latency=80us", job).has_value());
  EXPECT_EQ(job.simulated, (SimulatedDrive{3'758'096'384, 3'221'225'472, 80'000}));
  EXPECT_FALSE(job.engine.has_value());
  EXPECT_EQ(key.write(job), "sim:read=3584m,write=3g,latency=80us");
  EXPECT_FALSE(key.read("uring", job).has_value());
  EXPECT_FALSE(job.simulated.has_value()) << "the later one counts";
  EXPECT_FALSE(key.read("sim:write=1000MB", job).has_value());
  EXPECT_EQ(job.simulated->write_bytes_per_second, 1'000'000'000U);
  EXPECT_EQ(job.simulated->read_bytes_per_second, 3'758'096'384U) << "what is left out";
  for (const char* wrong : {"sim:read=0", "sim:speed=3g", "sim:latency=fast", "sim:read"}) {
    EXPECT_TRUE(key.read(wrong, job).has_value()) << wrong;
  }
}

TEST(JobKeyTest, ComputeIsPerTensorAndSpunUnlessItSaysSo) {
  const auto compute = [](std::string_view text) {
    Job job;
    EXPECT_FALSE(find_job_key("compute")->read(text, job).has_value()) << text;
    return job.compute.value_or(Compute{});
  };
  EXPECT_EQ(compute("5ms"), (Compute{5'000'000, Compute::Per::kTensor, true}));
  EXPECT_EQ(compute("20ms/GB"), (Compute{20'000'000, Compute::Per::kGigabyte, true}));
  EXPECT_EQ(compute("sleep:5ms"), (Compute{5'000'000, Compute::Per::kTensor, false}));
  EXPECT_EQ(compute("spin:80/tensor"), (Compute{80'000, Compute::Per::kTensor, true}));
}

TEST(JobKeyTest, WordsOfFioThatWeDoNotHave) {
  EXPECT_THAT(test::problem("[x]\nrw=randrw:8\n"), HasSubstr("number after the colon"));
  EXPECT_THAT(test::problem("[x]\nrw=randtrim\n"), HasSubstr("penstock does not trim"));
  EXPECT_THAT(test::problem("[x]\nverify=pattern\n"), HasSubstr("0, 1 and fio's checksums"));
  EXPECT_THAT(test::problem("[x]\nioengine=mmap\n"), HasSubstr("uring, aio, threads, null"));
}

TEST(JobKeyTest, NoughtIsNoLimit) {
  const Job job = test::jobs_of("[x]\nsize=1m\nruntime=5\nruntime=0\nio_size=4k\nio_size=0\n")[0];
  EXPECT_FALSE(job.runtime_ns.has_value());
  EXPECT_FALSE(job.io_size.has_value());
}

}  // namespace
}  // namespace penstock::bench
