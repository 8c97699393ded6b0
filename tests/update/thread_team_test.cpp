#include "swap/update/thread_team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <thread>
#include <vector>

namespace penstock {
namespace {

/// How often each of the parts was done.
std::vector<int> times_done(ThreadTeam& team, std::size_t parts, unsigned threads) {
  std::vector<std::atomic<int>> done(parts);
  team.run(parts, threads, [&done](std::size_t part) { ++done[part]; });
  return {done.begin(), done.end()};
}

TEST(ThreadTeam, DoesEachPartOnce) {
  ThreadTeam team;
  for (const std::size_t parts : {0U, 1U, 2U, 3U, 64U, 1000U}) {
    for (const unsigned threads : {0U, 1U, 2U, 5U}) {
      EXPECT_EQ(times_done(team, parts, threads), std::vector<int>(parts, 1));
    }
  }
}

TEST(ThreadTeam, AThousandJobsOneAfterTheOther) {
  ThreadTeam team;
  for (int job = 0; job < 1000; ++job) {
    ASSERT_EQ(times_done(team, 7, 3), std::vector<int>(7, 1)) << job;
  }
}

TEST(ThreadTeam, AnotherThreadWorksOnAJob) {
  ThreadTeam team;
  std::atomic<int> inside{0};
  // Each part waits for the other: one thread alone would never end.
  team.run(2, 2, [&inside](std::size_t) {
    ++inside;
    while (inside < 2) {
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(inside, 2);
}

TEST(ThreadTeam, ComputesAsTheCallerDoes) {
  ThreadTeam team;
  EXPECT_EQ(times_done(team, 2, 2), std::vector<int>(2, 1));  // begins the other thread
  for (const int rounding : {FE_UPWARD, FE_TONEAREST}) {
    ASSERT_EQ(std::fesetround(rounding), 0);
    std::atomic<int> inside{0};
    std::atomic<int> alike{0};
    team.run(2, 2, [&inside, &alike, rounding](std::size_t) {
      alike += std::fegetround() == rounding ? 1 : 0;
      ++inside;
      while (inside < 2) {
        std::this_thread::yield();
      }
    });
    EXPECT_EQ(alike, 2) << rounding;
  }
}

TEST(ThreadTeam, JobsOfSeveralCallersAtOnce) {
  ThreadTeam team;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&team, &wrong] {
      for (int job = 0; job < 200; ++job) {
        wrong += times_done(team, 9, 2) != std::vector<int>(9, 1) ? 1 : 0;
      }
    });
  }
  callers.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadTeam, AForkedChildWorksAlone) {
  ThreadTeam team;
  EXPECT_EQ(times_done(team, 50, 3), std::vector<int>(50, 1));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::size_t done = 0;
    team.run(50, 3, [&done](std::size_t) { ++done; });
    ::_exit(done == 50 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace penstock
