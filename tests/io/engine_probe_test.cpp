#include "io/engine_probe.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "tests/io/syscall_fault.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(EngineKind, IsReadAsUsersAndFioSpellIt) {
  EXPECT_EQ(*parse_engine_kind("auto"), EngineKind::kAuto);
  EXPECT_EQ(*parse_engine_kind("uring"), EngineKind::kUring);
  EXPECT_EQ(*parse_engine_kind("IO_uring"), EngineKind::kUring);
  EXPECT_EQ(*parse_engine_kind("threads"), EngineKind::kThreads);
  EXPECT_EQ(*parse_engine_kind("psync"), EngineKind::kThreads);
  EXPECT_EQ(*parse_engine_kind("pvsync"), EngineKind::kThreads);
  for (const char* text : {"", "libaio", "uring2"}) {
    const Result<EngineKind> kind = parse_engine_kind(text);
    ASSERT_FALSE(kind);
    EXPECT_EQ(kind.error().code, Fault::kConfiguration);
    EXPECT_THAT(kind.error().message, HasSubstr("uring"));
  }
}

TEST(EngineProbe, NamesEveryEngineWithFeaturesOrAReason) {
  const std::vector<EngineCandidate> candidates = probe_engines();
  ASSERT_EQ(candidates.size(), 2U);
  EXPECT_EQ(candidates[0].name, "uring");
  EXPECT_EQ(candidates[1].name, "threads");
  for (const EngineCandidate& candidate : candidates) {
    EXPECT_EQ(candidate.usable, candidate.reason.empty()) << candidate.reason;
    EXPECT_TRUE(candidate.usable || candidate.features.empty());
  }
  EXPECT_TRUE(candidates[1].usable);
  EXPECT_FALSE(candidates[1].features.empty());
}

TEST(MakeEngine, GivesTheOneAskedForAndTheFirstUsable) {
  std::vector<EngineCandidate> refusals;
  const auto threads = make_engine(EngineKind::kThreads, {}, &refusals);
  ASSERT_TRUE(threads);
  EXPECT_EQ((*threads)->name(), "threads");
  EXPECT_TRUE(refusals.empty());
  const std::vector<EngineCandidate> candidates = probe_engines();
  const auto first = std::ranges::find(candidates, true, &EngineCandidate::usable);
  EXPECT_EQ((*make_engine(EngineKind::kAuto, {}))->name(), first->name);
}

TEST(MakeEngine, ChecksTheOptionsOnce) {
  for (const IoEngineOptions& options :
       {IoEngineOptions{.block_bytes = 0}, IoEngineOptions{.block_bytes = 4095},
        IoEngineOptions{.block_bytes = 1U << 31}, IoEngineOptions{.depth = 0},
        IoEngineOptions{.depth = 1025}}) {
    for (const EngineKind kind : {EngineKind::kAuto, EngineKind::kUring, EngineKind::kThreads}) {
      const auto engine = make_engine(kind, options);
      ASSERT_FALSE(engine);
      EXPECT_EQ(engine.error().code, Fault::kInvalidArgument);
    }
  }
  EXPECT_TRUE(make_engine(EngineKind::kAuto, {.block_bytes = 4096, .depth = 1}));
  EXPECT_TRUE(make_engine(EngineKind::kAuto, {.block_bytes = 1U << 30, .depth = 1024}));
}

// In a child to which io_uring is forbidden, as containers do it.
TEST(MakeEngineDeathTest, WithoutIoUringFallsBackAndKeepsTheReason) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        inject({SYS_io_uring_setup, EPERM, 0, 0});
        std::vector<EngineCandidate> refusals;
        const auto fallback = make_engine(EngineKind::kAuto, {}, &refusals);
        const auto refused = make_engine(EngineKind::kUring, {});
        const bool good = fallback && (*fallback)->name() == "threads" && refusals.size() == 1 &&
                          refusals[0].name == "uring" && !refusals[0].usable &&
                          refusals[0].reason.find("io_uring") != std::string::npos && !refused &&
                          refused.error().message == refusals[0].reason &&
                          probe_engines()[0].reason == refusals[0].reason;
        std::fputs(refusals.empty() ? "" : refusals[0].reason.c_str(), stderr);
        std::_Exit(good ? 0 : 1);
      },
      testing::ExitedWithCode(0), "seccomp");
}

}  // namespace
}  // namespace penstock
