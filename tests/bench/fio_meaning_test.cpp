// The sixteen job files of tests/bench/jobs mean to us what they mean to fio. fio tells with
// --debug=parse which keys each job ends up with, and the number that it made of each value.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/job/job_key.h"
#include "bench/job/job_number.h"
#include "tests/bench/fio_parse_log.h"
#include "tests/bench/job_fixture.h"

namespace penstock::bench {
namespace {

constexpr std::string_view kFiles[] = {
    "01-sequential-read.job", "02-sequential-write.job",
    "03-random-mix.job",      "04-block-sizes.job",
    "05-stonewall.job",       "06-threads.job",
    "07-include.job",         "08-environment.job",
    "09-fsync.job",           "10-verify.job",
    "11-time-based.job",      "12-loops.job",
    "13-percentiles.job",     "14-files.job",
    "15-part-of-a-file.job",  "16-thinktime.job",
};

/// What a value of ours is in fio's units, where fio shows a number: it counts time in
/// microseconds.
std::optional<double> fio_number(std::string_view key, const std::string& written) {
  std::uint64_t number = 0;
  if (key == "runtime" || key == "ramp_time" || key == "thinktime") {
    EXPECT_FALSE(read_time(written, kMicrosecondNs, number).has_value());
    return static_cast<double>(number / kMicrosecondNs);
  }
  if (read_whole_number(written, number)) {
    return {};
  }
  return static_cast<double>(number);
}

std::vector<double> block_bytes(const Job& job) {
  std::vector<double> bytes;
  if (!job.read_blocks.empty()) {
    bytes.push_back(static_cast<double>(job.read_blocks[0].bytes));
  }
  if (!job.write_blocks.empty() && job.write_blocks != job.read_blocks) {
    bytes.push_back(static_cast<double>(job.write_blocks[0].bytes));
  }
  return bytes;
}

/// Numbers where fio shows them; elsewhere its text, read by our key, leaves the job as it is.
void expect_same_value(const JobKey& key, const test::FioKey& theirs, const Job& ours) {
  if (key.name == "percentile_list") {
    EXPECT_EQ(theirs.numbers, ours.percentiles);
    return;
  }
  const bool is_mixed = key.name == "bs" && key.write(ours) == std::nullopt;
  if (key.name == "bs" && !is_mixed) {
    EXPECT_EQ(theirs.numbers, block_bytes(ours));
    return;
  }
  if (is_mixed) {
    return;  // bssplit is over it
  }
  if (theirs.numbers.size() == 1) {
    const std::string written = key.write(ours).value_or("nothing");
    EXPECT_EQ(fio_number(key.name, written), theirs.numbers[0]) << written;
    return;
  }
  Job same = ours;
  EXPECT_FALSE(key.read(theirs.text.value_or("1"), same).has_value());
  EXPECT_EQ(same, ours) << theirs.text.value_or("(nothing)");
}

void expect_same_job(const test::FioJob& theirs, const Job& ours) {
  EXPECT_EQ(theirs.name, ours.name);
  for (const auto& [name, value] : theirs.keys) {
    SCOPED_TRACE(name);
    const JobKey* key = find_job_key(name);
    ASSERT_NE(key, nullptr);
    expect_same_value(*key, value, ours);
  }
  // Nor have we more than fio.
  for (const JobKey& key : job_keys()) {
    const bool is_theirs = std::ranges::any_of(
        theirs.keys, [&key](const auto& entry) { return find_job_key(entry.first) == &key; });
    if (!is_theirs && key.name != "name") {
      EXPECT_EQ(key.write(ours), key.write(Job())) << key.name;
    }
  }
}

class FioMeaningTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PENSTOCK_JOB_DIRECTORY", "/tmp", 1);
    ::setenv("PENSTOCK_JOB_BLOCK", "64k", 1);
  }

  void need_fio() {
    const std::string version = test::output_of("fio --version").value_or("");
    if (!version.starts_with("fio-")) {
      GTEST_SKIP() << "no fio on this machine: " << version;
    }
    const std::string log =
        test::output_of("fio --debug=parse --parse-only --name=x --size=1m").value_or("");
    if (log.find("out=1048576") == std::string::npos) {
      GTEST_SKIP() << "this fio does not tell what it reads: " << log.substr(0, 200);
    }
  }
};

TEST_F(FioMeaningTest, SixteenFilesAreReadAsFioReadsThem) {
  need_fio();
  if (IsSkipped()) {
    return;
  }
  for (const std::string_view file : kFiles) {
    SCOPED_TRACE(file);
    const std::string output =
        test::output_of(
            fmt::format("cd '{}' && fio --debug=parse --parse-only {}", PENSTOCK_JOBS_DIR, file))
            .value_or("");
    const std::vector<test::FioJob> theirs = test::read_fio_parse_log(output);
    const std::vector<Job> ours = load_jobs({test::job_path(file)}, {}).value();
    ASSERT_EQ(theirs.size(), ours.size()) << output;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      SCOPED_TRACE(ours[i].name);
      ASSERT_FALSE(theirs[i].keys.empty());
      expect_same_job(theirs[i], ours[i]);
    }
  }
}

TEST_F(FioMeaningTest, EveryFileIsReadWithoutFioToo) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PENSTOCK_JOBS_DIR)) {
    count += entry.path().extension() == ".job" ? 1U : 0U;
  }
  EXPECT_EQ(count, std::size(kFiles)) << "each file of the directory is compared";
  for (const std::string_view file : kFiles) {
    const Result<std::vector<Job>> jobs = load_jobs({test::job_path(file)}, {});
    ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
    for (const Job& job : *jobs) {
      EXPECT_TRUE(parse_jobs(describe_job(job), "echo.job").value().at(0) == job)
          << file << "\n"
          << describe_job(job);
    }
  }
}

/// Of fio's `read` and `write`: the share of each size, by a log of what it would have done.
using FioShares = std::map<std::string, std::map<std::uint64_t, double>>;

FioShares fio_shares(const std::string& split) {
  const char* wanted = std::getenv("PENSTOCK_TMP");
  const std::filesystem::path log = std::filesystem::path(wanted == nullptr ? "/tmp" : wanted) /
                                    fmt::format("penstock-fio-{}.log", ::getpid());
  test::output_of(
      fmt::format("fio --name=x --ioengine=null --size=64m --rw=rw --randseed=7 "
                  "--bssplit={} --write_iolog='{}'",
                  split, log.string()));
  FioShares shares;
  std::map<std::string, double> all;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string time;
    std::string file;
    std::string action;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    if (words >> time >> file >> action >> offset >> bytes) {
      shares[action][bytes] += 1;
      all[action] += 1;
    }
  }
  std::filesystem::remove(log);
  for (auto& [action, sizes] : shares) {
    for (auto& [bytes, share] : sizes) {
      share /= all[action];
    }
  }
  return shares;
}

TEST_F(FioMeaningTest, SplitsHaveTheSharesThatFioGivesThem) {
  need_fio();
  if (IsSkipped()) {
    return;
  }
  constexpr double kNear = 0.06;  // some thousand requests: more than three standard deviations
  for (const char* split : {"4k/10:64k/50:32k/", "4k/:8k/:16k/", "4k/10:64k/50",
                            "8k/100,4k/50:16k/", "4k/25:8k/75,16k/"}) {
    const Job job = test::jobs_of(fmt::format("[x]\nsize=1m\nrw=rw\nbssplit={}\n", split))[0];
    FioShares all = fio_shares(split);
    for (const auto& [direction, shares] :
         {std::pair("read", job.read_blocks), std::pair("write", job.write_blocks)}) {
      const std::map<std::uint64_t, double>& theirs = all[direction];
      ASSERT_EQ(theirs.size(), shares.size()) << split << " " << direction;
      for (const BlockShare& share : shares) {
        ASSERT_TRUE(theirs.contains(share.bytes)) << split << " " << direction;
        EXPECT_NEAR(theirs.at(share.bytes), share.percent / 100.0, kNear)
            << split << " " << direction << " " << share.bytes;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::bench
