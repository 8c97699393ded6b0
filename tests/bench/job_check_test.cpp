#include "bench/job/job_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/job_fixture.h"

namespace penstock::bench {
namespace {

using test::problem;
using testing::HasSubstr;

TEST(JobCheckTest, DirectRequestsAreWholeSectors) {
  EXPECT_THAT(problem("[x]\ndirect=1\nbs=1000\n"),
              HasSubstr("job \"x\" in a.job, line 1: bs=1000 with direct=1"));
  EXPECT_THAT(problem("[x]\ndirect=1\nsize=1m\nrw=write\nbs=4k,1000\n"), HasSubstr("bs=1000"));
  EXPECT_EQ(problem("[x]\ndirect=1\nbs=4k,1000\n"), "no error") << "nothing is written";
  EXPECT_THAT(problem("[x]\ndirect=1\nbssplit=4k/50:4097/\n"), HasSubstr("bs=4097"));
  EXPECT_THAT(problem("[x]\ndirect=1\noffset=100\n"), HasSubstr("offset=100 with direct=1"));
  EXPECT_EQ(problem("[x]\ndirect=1\nbs=512\noffset=512\n"), "no error");
  EXPECT_EQ(problem("[x]\nbs=1000\n"), "no error");
}

TEST(JobCheckTest, FilesHoldARequestAtLeast) {
  EXPECT_THAT(problem("[x]\nsize=2k\n"), HasSubstr("less than one request (bs=4k)"));
  EXPECT_THAT(problem("[x]\nsize=16k\nnrfiles=8\n"), HasSubstr("2048 bytes for each"));
  EXPECT_THAT(problem("[x]\nsize=16k\nfilename=a:b:c:d:e\n"), HasSubstr("3276 bytes for each"));
  EXPECT_EQ(problem("[x]\nsize=6k\nbssplit=4k/50:8k/50\n"), "no error") << "the smallest fits";
  EXPECT_THAT(problem("[x]\nsize=1m\noffset=1m\n"), HasSubstr("offset=1m leaves nothing"));
  EXPECT_THAT(problem("[x]\nsize=1m\nio_size=1k\n"), HasSubstr("io_size=1k is less than one"));
}

TEST(JobCheckTest, WhoeverMakesFilesSaysHowLargeTheyAre) {
  EXPECT_THAT(problem("[x]\nrw=write\n"), HasSubstr("say how large they are, such as size=1g"));
  EXPECT_EQ(problem("[x]\nrw=write\nfilename=there.dat\n"), "no error");
  EXPECT_EQ(problem("[x]\nrw=read\n"), "no error");
}

TEST(JobCheckTest, TimeBasedHasATime) {
  EXPECT_THAT(problem("[x]\ntime_based\n"), HasSubstr("time_based without a runtime"));
  EXPECT_EQ(problem("[x]\ntime_based\nruntime=1\n"), "no error");
}

TEST(JobCheckTest, WhatIsNotKeptCannotBeVerified) {
  EXPECT_THAT(problem("[x]\nverify=md5\nrw=write\nsize=1m\nioengine=null\n"),
              HasSubstr("verify=md5 with ioengine=null"));
  EXPECT_EQ(problem("[x]\nverify=md5\nrw=randrw\nsize=1m\n"), "no error");
  EXPECT_EQ(problem("[x]\nverify=0\nrw=read\n"), "no error");
}

TEST(JobCheckTest, WorkloadsHaveWhatTheyNeed) {
  EXPECT_THAT(problem("[x]\nworkload=swap\n"), HasSubstr("workload=swap needs a model"));
  EXPECT_THAT(problem("[x]\nworkload=update\n"), HasSubstr("workload=update needs a model"));
  EXPECT_THAT(problem("[x]\nworkload=replay\n"), HasSubstr("workload=replay needs a trace"));
  EXPECT_EQ(problem("[x]\nworkload=replay\ntrace=t\n"), "no error");
}

TEST(JobCheckTest, PeersCanDoTheWork) {
  EXPECT_THAT(problem("[x]\npair=fio\nioengine=sim\n"), HasSubstr("pair= with ioengine=sim"));
  EXPECT_THAT(problem("[x]\nworkload=replay\ntrace=t\npair=fio\n"),
              HasSubstr("pair= with workload=replay"));
  EXPECT_EQ(problem("[x]\npair=fio\n"), "no error");
}

TEST(JobCheckTest, AJobMadeByHandIsCheckedToo) {
  Job job;
  job.name = "x";
  EXPECT_TRUE(check_job(job).has_value());
  job.direction = {false, false, false};
  EXPECT_EQ(check_job(job).error().message, "job \"x\": rw= says neither read nor write");
}

}  // namespace
}  // namespace penstock::bench
