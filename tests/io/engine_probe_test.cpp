#include "io/engine_probe.h"

#include <gmock/gmock.h>
#include <sched.h>
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
  EXPECT_EQ(*parse_engine_kind("aio"), EngineKind::kAio);
  EXPECT_EQ(*parse_engine_kind("libaio"), EngineKind::kAio);
  EXPECT_EQ(*parse_engine_kind("null"), EngineKind::kNull);
  EXPECT_EQ(*parse_engine_kind("threads"), EngineKind::kThreads);
  EXPECT_EQ(*parse_engine_kind("psync"), EngineKind::kThreads);
  EXPECT_EQ(*parse_engine_kind("pvsync"), EngineKind::kThreads);
  for (const char* text : {"", "posixaio", "uring2"}) {
    const Result<EngineKind> kind = parse_engine_kind(text);
    ASSERT_FALSE(kind);
    EXPECT_EQ(kind.error().code, Fault::kConfiguration);
    for (const char* name : {"auto", "uring", "aio", "threads", "null"}) {
      EXPECT_THAT(kind.error().message, HasSubstr(name));
    }
  }
}

TEST(EngineKind, HasANameThatIsReadAsItself) {
  for (const EngineKind kind : {EngineKind::kAuto, EngineKind::kUring, EngineKind::kAio,
                                EngineKind::kThreads, EngineKind::kNull}) {
    EXPECT_EQ(*parse_engine_kind(engine_kind_name(kind)), kind);
    EXPECT_EQ(moves_bytes(kind), kind != EngineKind::kNull);
  }
}

TEST(EngineProbe, NamesEveryEngineWithFeaturesOrAReason) {
  const std::vector<EngineCandidate> candidates = probe_engines();
  ASSERT_EQ(candidates.size(), 3U);
  EXPECT_EQ(candidates[0].name, "uring");
  EXPECT_EQ(candidates[1].name, "aio");
  EXPECT_EQ(candidates[2].name, "threads");
  for (const EngineCandidate& candidate : candidates) {
    EXPECT_EQ(candidate.usable, candidate.reason.empty()) << candidate.reason;
    EXPECT_TRUE(candidate.usable || candidate.features.empty());
  }
  EXPECT_TRUE(candidates[2].usable);
  EXPECT_FALSE(candidates[2].features.empty());
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
    for (const EngineKind kind : {EngineKind::kAuto, EngineKind::kUring, EngineKind::kAio,
                                  EngineKind::kThreads, EngineKind::kNull}) {
      const auto engine = make_engine(kind, options);
      ASSERT_FALSE(engine);
      EXPECT_EQ(engine.error().code, Fault::kInvalidArgument);
    }
  }
  EXPECT_TRUE(make_engine(EngineKind::kAuto, {.block_bytes = 4096, .depth = 1}));
  EXPECT_TRUE(make_engine(EngineKind::kAuto, {.block_bytes = 1U << 30, .depth = 1024}));
}

TEST(MakeEngine, NeverChoosesTheOneThatMovesNothing) {
  for (const EngineCandidate& candidate : probe_engines()) {
    EXPECT_NE(candidate.name, "null");
  }
  const auto null = make_engine(EngineKind::kNull, {});
  ASSERT_TRUE(null);
  EXPECT_EQ((*null)->name(), "null");
}

// In a child to which everything is forbidden that an engine needs.
TEST(MakeEngineDeathTest, WithoutAnyEngineEveryReasonIsReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        inject({SYS_io_uring_setup, EPERM, 0, 0});
        inject({SYS_io_setup, ENOSYS, 0, 0});
        inject({SYS_clone3, ENOSYS, 0, 0});
        inject({SYS_clone, EAGAIN, 0, CLONE_THREAD});
        std::vector<EngineCandidate> refusals;
        const auto engine = make_engine(EngineKind::kAuto, {}, &refusals);
        bool good = !engine && refusals.size() == 3;
        for (const EngineCandidate& refusal : refusals) {
          good = good && engine.error().message.find(refusal.reason) != std::string::npos;
        }
        std::fputs(engine ? "" : engine.error().message.c_str(), stderr);
        std::_Exit(good ? 0 : 1);
      },
      testing::ExitedWithCode(0), "uring: .*aio: .*threads: ");
}

}  // namespace
}  // namespace penstock
