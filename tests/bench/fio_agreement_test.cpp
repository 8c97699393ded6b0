// The same job files through fio and through us: what does not depend on time must be the same.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/benchmark.h"
#include "bench/job/job_file.h"
#include "bench/report/report.h"
#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string output;
  std::array<char, 4096> block{};
  for (std::size_t got = 1; pipe != nullptr && got != 0;) {
    got = std::fread(block.data(), 1, block.size(), pipe.get());
    output.append(block.data(), got);
  }
  return output;
}

json run_fio(const TempDirectory& directory, const std::string& text) {
  std::ofstream(directory / "x.job") << text;
  std::filesystem::create_directory(directory / "fio");
  const std::string output =
      output_of("cd " + directory / "fio" + " && fio --output-format=json ../x.job 2>/dev/null");
  return json::parse(output.substr(std::min(output.find('{'), output.size())), nullptr, false);
}

json run_ours(const TempDirectory& directory, const std::string& text) {
  Report report;
  report.jobs = parse_jobs(text, "x.job").value();
  std::filesystem::create_directory(directory / "ours");
  for (Job& job : report.jobs) {
    job.directory = directory / "ours";
  }
  report.results = run_benchmark(report.jobs).value();
  return json::parse(json_report(report));
}

class FioAgreementTest : public testing::TestWithParam<const char*> {};

constexpr const char* kJobs[] = {
    "[x]\nrw=read\nbs=64k\nsize=4m\n",
    "[x]\nrw=write\nbs=300k\nsize=4m\n",
    "[x]\nrw=read\nbs=1m\nsize=4m\nio_size=2560k\n",
    "[x]\nrw=read\nbs=64k\nsize=4m\nio_size=10m\n",
    "[x]\nrw=read\nbs=64k\nsize=4m\nloops=2\n",
    "[x]\nrw=read\nbs=64k\nsize=1m\nio_size=1600k\nloops=2\n",
    "[x]\nrw=read\nbs=64k\nsize=1m\nio_size=3m\nloops=2\n",
    "[x]\nrw=read\nbs=64k\nsize=1m\nio_size=3200k\nloops=2\n",
    "[x]\nrw=read\nbs=64k\nsize=1m\nio_size=2060k\nloops=2\n",
    "[x]\nrw=read\nbs=64k\nsize=1m\nio_size=528k\nloops=3\n",
    "[x]\nrw=read\nbs=1m\nsize=2m\nnumjobs=2\n",
    "[x]\nrw=read\nbs=1m\nsize=2m\nnumjobs=2\ngroup_reporting\n",
    "[x]\nrw=read\nbs=1m\nsize=2m\nnumjobs=2\nfilename=shared\n",
    "[global]\nsize=2m\nbs=128k\n[a]\nrw=write\n[b]\nrw=read\nstonewall\n[c]\nrw=read\n",
    "[global]\nsize=2m\nbs=128k\ngroup_reporting\n[a]\nrw=write\n[b]\nrw=read\n[c]\nstonewall\n",
};

INSTANTIATE_TEST_SUITE_P(Jobs, FioAgreementTest, testing::ValuesIn(kJobs));

TEST_P(FioAgreementTest, SameJobsBytesAndRequests) {
  const TempDirectory directory;
  const json fio = run_fio(directory, GetParam());
  if (!fio.is_object()) {
    GTEST_SKIP() << "there is no fio here";
  }
  const json ours = run_ours(directory, GetParam());
  ASSERT_EQ(ours["jobs"].size(), fio["jobs"].size());
  for (std::size_t index = 0; index < fio["jobs"].size(); ++index) {
    const json& theirs = fio["jobs"][index];
    const json& mine = ours["jobs"][index];
    EXPECT_EQ(mine["jobname"], theirs["jobname"]);
    EXPECT_EQ(mine["groupid"], theirs["groupid"]);
    EXPECT_EQ(mine["error"], theirs["error"]);
    for (const char* const direction : {"read", "write"}) {
      for (const char* const key : {"io_bytes", "io_kbytes", "total_ios", "short_ios"}) {
        EXPECT_EQ(mine[direction][key], theirs[direction][key]) << direction << " " << key;
      }
      EXPECT_EQ(mine[direction]["clat_ns"]["N"], theirs[direction]["clat_ns"]["N"]);
    }
  }
}

// A mix: which of fio's requests are reads is chance, how much all move together is not.
TEST(FioMixTest, AMixMovesTheSameBytesTogether) {
  const TempDirectory directory;
  const std::string text = "[x]\nrw=rw\nrwmixread=70\nbs=256k\nsize=4m\n";
  const json fio = run_fio(directory, text);
  if (!fio.is_object()) {
    GTEST_SKIP() << "there is no fio here";
  }
  const json ours = run_ours(directory, text);
  const auto sum = [](const json& document, const char* key) {
    const json& job = document["jobs"][0];
    return job["read"][key].get<std::uint64_t>() + job["write"][key].get<std::uint64_t>();
  };
  EXPECT_EQ(sum(ours, "io_bytes"), sum(fio, "io_bytes"));
  EXPECT_EQ(sum(ours, "total_ios"), sum(fio, "total_ios"));
}

// A script that reads fio's keys finds them.
TEST(FioKeysTest, OurKeysOfADirectionAreFios) {
  const TempDirectory directory;
  const std::string text = "[x]\nrw=read\nbs=64k\nsize=1m\n";
  const json fio = run_fio(directory, text);
  if (!fio.is_object()) {
    GTEST_SKIP() << "there is no fio here";
  }
  const json ours = run_ours(directory, text);
  for (const auto& [key, value] : ours["jobs"][0]["read"].items()) {
    ASSERT_TRUE(fio["jobs"][0]["read"].contains(key)) << key;
    const json& theirs = fio["jobs"][0]["read"][key];
    EXPECT_EQ(value.is_number_integer(), theirs.is_number_integer()) << key;
  }
  const json& clat = fio["jobs"][0]["read"]["clat_ns"];
  for (const auto& [key, value] : ours["jobs"][0]["read"]["clat_ns"].items()) {
    EXPECT_TRUE(clat.contains(key)) << key;
  }
  for (const auto& [key, value] : clat["percentile"].items()) {
    EXPECT_TRUE(ours["jobs"][0]["read"]["clat_ns"]["percentile"].contains(key)) << key;
  }
}

}  // namespace
}  // namespace penstock::bench
