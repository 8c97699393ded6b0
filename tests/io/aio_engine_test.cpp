#include "io/aio_engine.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>

#include <cerrno>
#include <deque>
#include <latch>
#include <thread>

#include "io/aio_refusal.h"
#include "tests/alloc/same_bytes.h"
#include "tests/io/process_state.h"
#include "tests/io/submit_script.h"
#include "tests/io/syscall_fault.h"
#include "tests/io/temp_directory.h"
#include "tests/io/test_op.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class AioEngineTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlock = 64 * 1024;
  static constexpr std::uint64_t kOps = 12;

  void SetUp() override {
    Result<std::unique_ptr<IoEngine>> engine = make_aio_engine({kBlock, 8});
    if (!engine) {
      GTEST_SKIP() << engine.error().message;
    }
    engine_ = std::move(*engine);
    script_submit({});
    fill_random(source_.span(), 3);
  }
  void TearDown() override { script_submit({}); }

  File scratch(DirectMode mode) {
    return std::move(File::create_scratch(directory_.path(), mode)).value();
  }
  void submit_all(std::deque<TestOp>& ops, IoKind kind, const File& file, const Memory& memory) {
    for (std::uint64_t index = 0; index < kOps; ++index) {
      TestOp& op = ops.emplace_back();
      op.set(kind, file, memory.span().subspan(index * kBlock, kBlock), index * kBlock);
      engine_->submit(op);
    }
  }
  // As an event loop drives it: only the descriptor shows that there is something to do.
  void run_by_descriptor() {
    engine_->poll();
    while (!engine_->idle()) {
      pollfd readable{engine_->completion_fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&readable, 1, 60'000), 1) << "no notification of more work";
      engine_->poll();
    }
  }
  void expect_written(const File& file) {
    std::deque<TestOp> ops;
    submit_all(ops, IoKind::kRead, file, target_);
    run_until_idle(*engine_);
    EXPECT_TRUE(same_bytes(source_.span(), target_.span()));
  }

  TempDirectory directory_;
  Memory source_ = pages(kOps * kBlock);
  Memory target_ = pages(kOps * kBlock);
  std::unique_ptr<IoEngine> engine_;
};

TEST_F(AioEngineTest, NoRoomIsNoErrorAndIsTriedAgain) {
  const File file = scratch(DirectMode::kAuto);
  std::deque<TestOp> ops;
  submit_all(ops, IoKind::kWrite, file, source_);
  // Nothing, then a few, then nothing while those are under way, then an interruption.
  script_submit({-EAGAIN, -EAGAIN, 3, -EAGAIN, 0, -EINTR, 1, -EAGAIN});
  run_by_descriptor();
  EXPECT_EQ(scripted_submits_left(), 0U);
  for (const TestOp& op : ops) {
    EXPECT_EQ(op.calls, 1);
    EXPECT_EQ(op.error, 0);
  }
  expect_written(file);
}

TEST_F(AioEngineTest, AWaitThatBlocksTriesAgainToo) {
  const File file = scratch(DirectMode::kAuto);
  std::deque<TestOp> ops;
  submit_all(ops, IoKind::kWrite, file, source_);
  script_submit({-EAGAIN, -EAGAIN, 1, -EAGAIN, -EAGAIN, -EAGAIN});
  run_until_idle(*engine_);
  EXPECT_EQ(scripted_submits_left(), 0U);
  expect_written(file);
}

TEST_F(AioEngineTest, ARefusedRequestEndsAloneAndTheOthersGoOn) {
  const File file = scratch(DirectMode::kAuto);
  std::deque<TestOp> ops;
  submit_all(ops, IoKind::kWrite, file, source_);
  script_submit({2, -EINVAL, 1, -EBADF});
  run_by_descriptor();
  std::vector<int> errors;
  for (const TestOp& op : ops) {
    EXPECT_EQ(op.calls, 1);
    if (op.error != 0) {
      errors.push_back(op.error);
    }
  }
  EXPECT_THAT(errors, testing::UnorderedElementsAre(EINVAL, EBADF));
}

TEST_F(AioEngineTest, EndsWithRequestsThatTheKernelHasNotTaken) {
  const File file = scratch(DirectMode::kAuto);
  std::deque<TestOp> ops;
  submit_all(ops, IoKind::kWrite, file, source_);
  script_submit({-EAGAIN, -EAGAIN, -EAGAIN, 1, -EAGAIN});
  engine_->poll();
  engine_.reset();
  for (const TestOp& op : ops) {
    EXPECT_EQ(op.calls, 1);
    EXPECT_TRUE(op.error == 0 || op.error == ECANCELED) << op.error;
  }
}

TEST_F(AioEngineTest, BufferedFilesGetThreadsAndDirectOnesNone) {
  const File direct = scratch(DirectMode::kAuto);
  if (!direct.direct().supported) {
    GTEST_SKIP() << direct.direct().reason;
  }
  std::latch over(1);  // with a process's first thread a sanitizer starts one of its own
  const std::jthread first([&] { over.wait(); });
  const std::size_t before = thread_count();
  std::deque<TestOp> ops;
  submit_all(ops, IoKind::kWrite, direct, source_);
  run_until_idle(*engine_);
  EXPECT_EQ(thread_count(), before);
  const File buffered = scratch(DirectMode::kBuffered);
  submit_all(ops, IoKind::kWrite, buffered, source_);
  submit_all(ops, IoKind::kRead, direct, target_);  // both ways at once
  run_until_idle(*engine_);
  EXPECT_TRUE(same_bytes(source_.span(), target_.span()));
  expect_written(buffered);
  EXPECT_GT(thread_count(), before);
  engine_.reset();
  EXPECT_TRUE(thread_count_becomes(before));
  over.count_down();
}

TEST_F(AioEngineTest, WithoutThreadsBufferedFilesHoldTheLoopUpAndAreRight) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        inject({SYS_clone3, ENOSYS, 0, 0});
        inject({SYS_clone, EAGAIN, 0, CLONE_THREAD});
        const File file = scratch(DirectMode::kBuffered);
        std::deque<TestOp> ops;
        submit_all(ops, IoKind::kWrite, file, source_);
        run_until_idle(*engine_);
        submit_all(ops, IoKind::kRead, file, target_);
        run_until_idle(*engine_);
        std::_Exit(same_bytes(source_.span(), target_.span()) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// --- Refusals -----------------------------------------------------------------------------------

TEST(AioRefusal, NamesItsRemedyAndKeepsTheErrno) {
  const struct {
    int error;
    const char* remedy;
  } cases[] = {
      {EAGAIN, "sysctl -w fs.aio-max-nr"}, {EPERM, "seccomp"},          {ENOSYS, "CONFIG_AIO"},
      {EACCES, "security module"},         {ENOMEM, "memory is short"}, {EIO, "io_setup(2)"}};
  for (const auto& one : cases) {
    const Error error = explain_aio_refusal(one.error, std::nullopt);
    EXPECT_THAT(error.message, HasSubstr("libaio"));
    EXPECT_THAT(error.message, HasSubstr(one.remedy));
    EXPECT_EQ(error.system_errno(), one.error);
  }
  EXPECT_THAT(explain_aio_refusal(EAGAIN, AioUsage{65536, 65500}).message,
              testing::AllOf(HasSubstr("65536"), HasSubstr("65500")));
}

TEST(AioUsage, IsWhatTheKernelSays) {
  const std::optional<AioUsage> usage = read_aio_usage();
  if (!usage) {
    GTEST_SKIP() << "this kernel has no fs.aio-max-nr";
  }
  EXPECT_GT(usage->allowed, 0U);
  EXPECT_LE(usage->taken, usage->allowed);
}

}  // namespace
}  // namespace penstock
