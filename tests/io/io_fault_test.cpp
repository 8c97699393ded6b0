#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <latch>
#include <thread>

#include "io/io_queue.h"
#include "tests/alloc/same_bytes.h"
#include "tests/alloc/sanitizers.h"
#include "tests/io/engine_kind_printing.h"
#include "tests/io/queue_op.h"
#include "tests/io/round_trip.h"
#include "tests/io/temp_directory.h"

// What the process around us does while I/O runs: forks, signals, limits.

namespace penstock {

namespace {

class IoFault : public testing::TestWithParam<EngineKind> {
 protected:
  static constexpr std::uint32_t kBlock = 64 * 1024;

  void SetUp() override {
    Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(GetParam(), {kBlock, 8});
    if (!queue) {
      GTEST_SKIP() << queue.error().message;
    }
    queue_ = std::move(*queue);
  }
  File scratch(DirectMode mode = DirectMode::kAuto) {
    return std::move(File::create_scratch(directory_.path(), mode)).value();
  }

  TempDirectory directory_;
  std::unique_ptr<IoQueue> queue_;
};

/// Writes and reads one file through, round after round, on a thread of its own.
class Traffic {
 public:
  Traffic(IoQueue& queue, const File& file, std::span<std::byte> source,
          std::span<std::byte> target)
      : thread_([this, &queue, &file, source, target] {
          while (!stopping_) {
            fill_random(source, ++rounds_);
            const bool good = run_one(queue, IoKind::kWrite, file, source, 0) == 0 &&
                              run_one(queue, IoKind::kRead, file, target, 0) == 0 &&
                              same_bytes(source, target);
            wrong_ += good ? 0 : 1;
          }
        }) {}
  /// How many rounds there were, and how many of them went wrong.
  std::pair<std::uint64_t, std::uint64_t> stop() {
    stopping_ = true;
    thread_.join();
    return {rounds_, wrong_};
  }
  std::uint64_t rounds() const { return rounds_; }

 private:
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::uint64_t wrong_ = 0;
  std::thread thread_;
};

// A child that uses its copy of the memory while the drive writes into the parent's.
pid_t fork_a_user_of(const Memory& memory) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (std::size_t at = 0; at < memory.bytes(); at += 4096) {
      memory.data()[at] = std::byte{0xee};
    }
    ::_exit(0);
  }
  return child;
}

TEST_P(IoFault, ForksOfTheParentDisturbNothing) {
  const File file = scratch();
  const Memory source = pages(4 * kMiB);
  const Memory plain = pages(4 * kMiB);
  const Memory registered = pages(4 * kMiB);
  (void)queue_->register_memory(registered.span());  // costs time only, where it is refused
  Traffic into_plain(*queue_, file, source.span().first(2 * kMiB), plain.span().first(2 * kMiB));
  const File other = scratch();
  Traffic into_registered(*queue_, other, registered.span().first(2 * kMiB),
                          registered.span().subspan(2 * kMiB));
  for (std::uint64_t count = 0; count < work(100); ++count) {
    const pid_t child = fork_a_user_of(plain);
    ASSERT_GT(child, 0);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  while (into_plain.rounds() < 3 || into_registered.rounds() < 3) {
    std::this_thread::yield();
  }
  EXPECT_EQ(into_plain.stop().second, 0U);
  EXPECT_EQ(into_registered.stop().second, 0U);
  queue_->unregister_memory(registered.span());
}

TEST_P(IoFault, AChildThatOutlivesTheQueueHoldsNothingUp) {
  const File file = scratch();
  const Memory memory = pages(8 * kMiB);
  std::latch done(1);
  QueueOp op;
  op.set(IoKind::kWrite, file, memory.span(), 0);
  op.done = &done;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  queue_->submit(op);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    char byte = 0;
    (void)!::read(ends[0], &byte, 1);  // until the parent closes the other end
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  done.wait();
  queue_.reset();
  EXPECT_EQ(op.error, 0);
  const auto next = IoQueue::start(GetParam(), {kBlock, 8});
  ASSERT_TRUE(next.has_value()) << next.error().message;
  EXPECT_TRUE(round_trips(**next, directory_.path()));
  ::close(ends[1]);
  ::close(ends[0]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// SIGALRM every 100 us, with a handler that lets system calls fail with EINTR.
class SignalStorm {
 public:
  SignalStorm() {
    struct ::sigaction action{};
    action.sa_handler = [](int) { storms.fetch_add(1, std::memory_order_relaxed); };
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval every{{0, 100}, {0, 100}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~SignalStorm() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

  static inline std::atomic<std::uint64_t> storms{0};

 private:
  struct ::sigaction before_{};
};

TEST_P(IoFault, ASignalStormInterruptsNothing) {
  const SignalStorm storm;
  const std::uint64_t before = SignalStorm::storms;
  // On the loop's thread, where signals are blocked, and on this one, where they are not.
  for (std::uint64_t round = 0; round < work(50) || SignalStorm::storms < before + 100; ++round) {
    ASSERT_TRUE(round_trips(*queue_, directory_.path()));
    const auto engine = make_engine(GetParam(), {kBlock, 4});
    ASSERT_TRUE(engine.has_value()) << engine.error().message;
    const File file = scratch(round % 2 == 0 ? DirectMode::kAuto : DirectMode::kBuffered);
    const Memory source = pages(kMiB);
    const Memory target = pages(kMiB);
    fill_random(source.span(), round);
    TestOp write(IoKind::kWrite, file, source.span(), 0);
    TestOp read(IoKind::kRead, file, target.span(), 0);
    for (TestOp* op : {&write, &read}) {
      (*engine)->submit(*op);
      run_until_idle(**engine);
      ASSERT_EQ(op->error, 0);
    }
    ASSERT_TRUE(same_bytes(source.span(), target.span()));
  }
}

// SIGXFSZ is as the system has it, which ends a process: threads of ours do not take it.
[[noreturn]] void write_beyond_the_limit(IoQueue& queue, const File& file, std::uint64_t bytes) {
  ::signal(SIGXFSZ, SIG_DFL);
  const rlimit limit{2 * bytes, 2 * bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const Memory memory = pages(4 * bytes);
  const bool good = run_one(queue, IoKind::kWrite, file, memory.span(), 0) == EFBIG &&
                    run_one(queue, IoKind::kWrite, file, memory.span().first(bytes), 0) == 0 &&
                    run_one(queue, IoKind::kRead, file, memory.span().first(bytes), 0) == 0;
  std::_Exit(good ? 0 : 1);
}

TEST_P(IoFault, AFileSizeLimitIsAnErrorAndNotTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const DirectMode mode : {DirectMode::kAuto, DirectMode::kBuffered}) {
    const File file = scratch(mode);
    EXPECT_EXIT(write_beyond_the_limit(*queue_, file, kBlock), testing::ExitedWithCode(0), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, IoFault,
                         testing::Values(EngineKind::kUring, EngineKind::kAio,
                                         EngineKind::kThreads),
                         [](const testing::TestParamInfo<EngineKind>& kind) {
                           return std::string(engine_kind_name(kind.param));
                         });

}  // namespace
}  // namespace penstock
