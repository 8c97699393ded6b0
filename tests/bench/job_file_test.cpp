#include "bench/job/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "alloc/bytes.h"
#include "bench/job/job_number.h"
#include "tests/bench/job_fixture.h"

namespace penstock::bench {
namespace {

using test::command_jobs;
using test::command_problem;
using test::files;
using test::jobs_of;
using test::problem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> names(const std::vector<Job>& jobs) {
  std::vector<std::string> all;
  for (const Job& job : jobs) {
    all.push_back(job.name);
  }
  return all;
}

TEST(JobFileTest, AJobWithoutKeysHasFiosDefaults) {
  const Job job = jobs_of("[x]\n")[0];
  Job untold;
  untold.name = "x";
  EXPECT_EQ(job, untold);
  EXPECT_TRUE(job.direction.reads && !job.direction.writes && !job.direction.random);
  EXPECT_TRUE(job.invalidate);
  EXPECT_EQ(job.rwmixread, 50U);
  EXPECT_EQ(job.workload, Workload::kRaw);
}

TEST(JobFileTest, GlobalSectionsHoldForTheJobsBelowThem) {
  const std::vector<Job> jobs = jobs_of(
      "[global]\nbs=4k\niodepth=2\n[a]\niodepth=4\n[global]\nbs=8k\n[b]\n[c]\nbs=1m\n[d]\n");
  EXPECT_EQ(names(jobs), (std::vector<std::string>{"a", "b", "c", "d"}));
  const auto block = [&jobs](std::size_t i) { return jobs[i].read_blocks[0].bytes; };
  EXPECT_THAT((std::vector<std::uint64_t>{block(0), block(1), block(2), block(3)}),
              ElementsAre(4 * kKiB, 8 * kKiB, kMiB, 8 * kKiB));
  EXPECT_EQ(jobs[0].iodepth, 4U);
  EXPECT_EQ(jobs[3].iodepth, 2U);
}

TEST(JobFileTest, TheLastOfTwoEqualKeysCounts) {
  EXPECT_EQ(jobs_of("[x]\niodepth=2\niodepth=3\n")[0].iodepth, 3U);
  EXPECT_EQ(jobs_of("[x]\nblocksize=2k\nbs=4k\nblocksize=8k\n")[0].read_blocks[0].bytes, 8 * kKiB);
}

TEST(JobFileTest, ASplitWinsOverASizeWhereverItStands) {
  const Job before = jobs_of("[x]\nbssplit=4k/50:8k/50,\nbs=64k\n")[0];
  EXPECT_EQ(before, jobs_of("[x]\nbs=64k\nbssplit=4k/50:8k/50,\n")[0]);
  EXPECT_EQ(before.read_blocks.size(), 2U);
  EXPECT_EQ(before.write_blocks, (std::vector<BlockShare>{{64 * kKiB, 100}}));
}

TEST(JobFileTest, BlanksAndCommentsDoNotCount) {
  const Job job = jobs_of(
      "; one\n  # two\n\n [ a job ]  ; three\r\n\tbs = 4k   ; four\r\niodepth=8 # five\n"
      "directory=/a;b#c")[0];
  EXPECT_EQ(job.name, "a job");
  EXPECT_EQ(job.read_blocks[0].bytes, 4 * kKiB);
  EXPECT_EQ(job.iodepth, 8U);
  EXPECT_EQ(job.directory, "/a;b#c") << "a comment begins after a blank";
}

TEST(JobFileTest, NamesMayHoldBrackets) {
  EXPECT_EQ(jobs_of("[a]b]\n")[0].name, "a]b");
  EXPECT_EQ(jobs_of("[a]\nname=b\n")[0].name, "b");
  EXPECT_EQ(jobs_of("[global]\nname=g\n[a]\n")[0].name, "a") << "not all of them";
}

TEST(JobFileTest, TheEnvironmentIsPutIn) {
  ::setenv("PENSTOCK_JOB_TEST", "64", 1);
  EXPECT_EQ(jobs_of("[x]\nbs=${PENSTOCK_JOB_TEST}k\n")[0].read_blocks[0].bytes, 64 * kKiB);
  EXPECT_EQ(command_jobs({"--size=${PENSTOCK_JOB_TEST}m"})[0].size, 64 * kMiB);
  ::setenv("PENSTOCK_JOB_TEST", "", 1);
  EXPECT_EQ(jobs_of("[x]\nbs=4k${PENSTOCK_JOB_TEST}\n")[0].read_blocks[0].bytes, 4 * kKiB);
  ::setenv("PENSTOCK_JOB_TEST", "a\nb", 1);
  EXPECT_THAT(problem("[x]\ndirectory=${PENSTOCK_JOB_TEST}\n"),
              HasSubstr("a.job, line 2: directory holds a control character"));
  ::setenv("PENSTOCK_JOB_TEST", "${HOME}", 1);
  EXPECT_THAT(problem("[x]\ndirectory=${PENSTOCK_JOB_TEST}\n"), HasSubstr("holds ${ after"));
  ::unsetenv("PENSTOCK_JOB_TEST");
  EXPECT_THAT(problem("[x]\nbs=${PENSTOCK_JOB_TEST}k\n"),
              HasSubstr("a.job, line 2: bs names the environment's variable \"PENSTOCK_JOB_TEST\", "
                        "which is not set"));
  EXPECT_THAT(problem("[x]\nbs=${4k\n"), HasSubstr("bs has a ${ without its }"));
  EXPECT_THAT(problem("[x]\nbs=${}\n"), HasSubstr("variable \"\", which is not set"));
}

TEST(JobFileTest, IncludedFilesAreFoundBesideTheIncludingOne) {
  const TextReader read = files({{"dir/one.inc", "iodepth=8\ninclude sub/two.inc\nbs=8k\n"},
                                 {"dir/sub/two.inc", "bs=4k\ninclude=three.inc\n"},
                                 {"dir/sub/three.inc", "direct=1\n"}});
  const std::vector<Job> jobs =
      parse_jobs("[global]\ninclude dir/one.inc\n[x]\nsize=1m\n", "a.job", read).value();
  EXPECT_EQ(jobs[0].iodepth, 8U);
  EXPECT_EQ(jobs[0].direct, true);
  EXPECT_EQ(jobs[0].read_blocks[0].bytes, 8 * kKiB) << "in the order of the lines";
  EXPECT_EQ(parse_jobs("[x]\ninclude one.inc\n", "dir/a.job", read).value()[0].iodepth, 8U);
}

TEST(JobFileTest, WrongIncludesAreErrors) {
  EXPECT_THAT(problem("[x]\ninclude no.inc\n"),
              AllOf(HasSubstr("a.job, line 2: cannot open no.inc"), HasSubstr("No such file")));
  EXPECT_THAT(problem("[x]\ninclude\n"), HasSubstr("include names no file"));
  EXPECT_THAT(problem("[x]\ninclude=\n"), HasSubstr("include names no file"));
  EXPECT_THAT(problem("include b.inc\n"), HasSubstr("before the first section"));
  EXPECT_THAT(problem("[x]\ninclude ./a.job\n"), HasSubstr("a.job includes itself"));
  EXPECT_THAT(problem("[x]\ninclude b\n", files({{"b", "include c\n"}, {"c", "include b\n"}})),
              HasSubstr("c, line 1: b includes itself"));
  EXPECT_THAT(problem("[x]\ninclude b\n", files({{"b", "[y]\n"}})),
              HasSubstr("b, line 1: an included file holds keys only"));
  for (const char* const secret :
       {"root:$6$secret:19000", "secret", "secret=1", "=secret", "x=${secret", "iodepth"}) {
    const std::string said = problem("[x]\ninclude b\n", files({{"b", secret}}));
    EXPECT_THAT(said, testing::AllOf(HasSubstr("b"), testing::Not(HasSubstr("secret"))));
  }
  EXPECT_THAT(problem("[x]\ninclude b\n", files({{"b", "\niodpeth=3\n"}})),
              HasSubstr("iodpeth in b, line 2 is not a key"));
}

TEST(JobFileTest, IncludesAreBounded) {
  const TextReader deeper = [](const std::string& path) -> Result<std::string> {
    return "include " + path + "x\n";
  };
  EXPECT_THAT(problem("[x]\ninclude b\n", deeper), HasSubstr("one include too many: at most 16"));
  int reads = 0;
  const TextReader wide = [&reads](const std::string& path) -> Result<std::string> {
    ++reads;
    return path.size() > 12 ? "" : "include " + path + "x\ninclude " + path + "y\n";
  };
  EXPECT_THAT(problem("[x]\ninclude b\n", wide), HasSubstr("256 in all"));
  EXPECT_LE(reads, 256);
}

TEST(JobFileTest, WhatIsNoJobFileSaysSo) {
  EXPECT_THAT(problem(""), HasSubstr("a.job has no job: a section such as [read] is needed"));
  EXPECT_THAT(problem("[global]\nbs=4k\n"), HasSubstr("a.job has no job"));
  EXPECT_THAT(problem("bs=4k\n[x]\n"),
              HasSubstr("a.job, line 1: \"bs=4k\" stands before the first section"));
  EXPECT_THAT(problem("[x\n"), HasSubstr("a.job, line 1: \"[x\" is no section"));
  EXPECT_THAT(problem("[]\n"), HasSubstr("\"[]\" is no section"));
  EXPECT_THAT(problem("[x]\n=4\n"), HasSubstr("a.job, line 2: \"=4\" has no key"));
  std::string many;
  for (int i = 0; i < 1025; ++i) {
    many += "[x]\n";
  }
  EXPECT_THAT(problem(many), HasSubstr("a.job has more than 1024 jobs"));
}

TEST(JobFileTest, SharedKeysReachOnlyTheWorkloadsTheyMeanSomethingTo) {
  const std::vector<Job> jobs =
      jobs_of("[global]\nrw=write\ninventory=m.json\nsize=1g\n[a]\n[b]\nworkload=swap\n");
  EXPECT_TRUE(jobs[0].direction.writes);
  EXPECT_TRUE(jobs[0].inventory.empty());
  EXPECT_FALSE(jobs[1].direction.writes);
  EXPECT_EQ(jobs[1].inventory, "m.json");
}

TEST(JobFileTest, OwnKeysOfAnotherWorkloadAreErrors) {
  EXPECT_THAT(problem("[x]\ninventory=m.json\n"),
              HasSubstr("inventory in a.job, line 2 means nothing to workload=raw; it is for swap, "
                        "update"));
  EXPECT_THAT(problem("[x]\nrw=read\nworkload=swap\ninventory=m\n"),
              HasSubstr("rw in a.job, line 2 means nothing to workload=swap; it is for raw"));
  EXPECT_THAT(problem("[x]\nworkload=update\ninventory=m\nphase=step\n"),
              HasSubstr("it is for swap"));
  EXPECT_THAT(command_problem({"--trace=t"}),
              HasSubstr("--trace means nothing to workload=raw; it is for replay"));
}

TEST(CommandLineTest, ANameBeginsAJobAndWhatIsBeforeHoldsForAll) {
  const std::vector<Job> jobs = command_jobs(
      {"--bs=1m", "--size=8m", "--name=a", "--rw=write", "--name=b", "--stonewall", "--bs=4k"});
  EXPECT_EQ(names(jobs), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(jobs[0].read_blocks[0].bytes, kMiB);
  EXPECT_TRUE(jobs[0].direction.writes && !jobs[0].stonewall);
  EXPECT_EQ(jobs[1].read_blocks[0].bytes, 4 * kKiB);
  EXPECT_TRUE(jobs[1].direction.reads && jobs[1].stonewall);
}

TEST(CommandLineTest, KeysAloneAreOneJob) {
  EXPECT_EQ(names(command_jobs({"--rw=read", "--size=1m"})), std::vector<std::string>{"raw"});
  EXPECT_EQ(names(command_jobs({"--inventory=m", "--workload=swap"})),
            std::vector<std::string>{"swap"});
  EXPECT_EQ(command_jobs({"--size=1m", "--write_bw_log"})[0].write_bw_log, "raw");
}

TEST(CommandLineTest, KeysGoOverThoseOfFiles) {
  const std::vector<std::string> file = {test::job_path("04-block-sizes.job")};
  const std::vector<Job> jobs = command_jobs({"--bs=8k", "--iodepth=3"}, file);
  ASSERT_EQ(jobs.size(), 3U);
  for (const Job& job : jobs) {
    EXPECT_EQ(job.iodepth, 3U);
    EXPECT_EQ(job.read_blocks, (std::vector<BlockShare>{{8 * kKiB, 100}})) << "over bssplit too";
  }
  EXPECT_EQ(command_jobs({"--bs=8k", "--bssplit=4k/50:8k/"}, file)[2].read_blocks.size(), 2U);
}

TEST(CommandLineTest, JobsJoinThoseOfFiles) {
  const std::vector<Job> jobs =
      command_jobs({"--size=2m", "--name=more", "--rw=randread"},
                   {test::job_path("12-loops.job"), test::job_path("09-fsync.job")});
  EXPECT_EQ(names(jobs), (std::vector<std::string>{"again", "log", "log-in-batches", "more"}));
  for (const Job& job : jobs) {
    EXPECT_EQ(job.size, 2 * kMiB);
  }
  EXPECT_TRUE(jobs[3].direction.random);
  EXPECT_FALSE(jobs[0].direction.random);
}

TEST(CommandLineTest, MistakesAreSentences) {
  EXPECT_THAT(command_problem({}), HasSubstr("there is no job: give a job file"));
  EXPECT_THAT(command_problem({"bs=4k"}), HasSubstr("\"bs=4k\" is not --key=value"));
  EXPECT_THAT(command_problem({"--"}), HasSubstr("\"--\" is not --key=value"));
  EXPECT_THAT(command_problem({"--=4"}), HasSubstr("is not --key=value"));
  EXPECT_THAT(command_problem({"--bs=5x"}), StartsWith("--bs is \"5x\"; a whole number"));
  EXPECT_THAT(command_problem({"--name"}), HasSubstr("--name needs a value"));
  EXPECT_THAT(command_problem({"--name="}), HasSubstr("a name is needed"));
  EXPECT_THAT(command_problem({"--directory=a #b"}),
              HasSubstr("--directory holds a blank before ; or #"));
  EXPECT_THAT(command_problem({"--output-format=json"}),
              HasSubstr("--output-format is an option of penstock bench"));
  EXPECT_THAT(command_problem({}, {"/no/such.job"}),
              AllOf(HasSubstr("/no/such.job"), HasSubstr("No such file")));
  EXPECT_THAT(command_problem({"--trace=t"}, {test::job_path("12-loops.job")}),
              HasSubstr("--trace means nothing to the workload of any of the jobs"));
}

}  // namespace
}  // namespace penstock::bench
