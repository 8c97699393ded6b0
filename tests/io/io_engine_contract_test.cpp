#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <deque>

#include "io/aio_engine.h"
#include "io/null_engine.h"
#include "io/thread_engine.h"
#include "io/throttled_engine.h"
#include "io/uring_engine.h"
#include "tests/alloc/allocation_counter.h"
#include "tests/alloc/same_bytes.h"
#include "tests/io/temp_directory.h"
#include "tests/io/test_op.h"

namespace penstock {
namespace {

/// A backend and the queue depth to run it with.
struct EngineCase {
  std::string name;
  Result<std::unique_ptr<IoEngine>> (*make)(const IoEngineOptions& options);
  std::uint32_t depth;
};

std::ostream& operator<<(std::ostream& out, const EngineCase& engine) {
  return out << engine.name << " at depth " << engine.depth;
}

/// What io/io_engine.h promises of every backend.
class IoEngineContract : public testing::TestWithParam<EngineCase> {
 protected:
  static constexpr std::uint32_t kBlock = 64 * 1024;

  void SetUp() override {
    Result<std::unique_ptr<IoEngine>> engine = GetParam().make({kBlock, GetParam().depth});
    if (!engine) {
      GTEST_SKIP() << engine.error().message;
    }
    engine_ = std::move(*engine);
  }

  File scratch(DirectMode mode) {
    return std::move(File::create_scratch(directory_.path(), mode)).value();
  }
  int run(IoKind kind, const File& file, std::span<std::byte> memory, std::uint64_t offset) {
    TestOp op(kind, file, memory, offset);
    engine_->submit(op);
    run_until_idle(*engine_);
    EXPECT_EQ(op.calls, 1);
    return op.error;
  }
  void expect_round_trip(const File& file, std::uint64_t bytes, std::uint64_t offset) {
    const Memory source = pages(bytes + 1);
    const Memory target = pages(bytes + 1);
    fill_random(source.span(), bytes);
    EXPECT_EQ(run(IoKind::kWrite, file, source.span().first(bytes), offset), 0) << bytes;
    EXPECT_EQ(run(IoKind::kRead, file, target.span().first(bytes), offset), 0) << bytes;
    EXPECT_TRUE(same_bytes(source.span().first(bytes), target.span().first(bytes))) << bytes;
  }

  TempDirectory directory_;
  std::unique_ptr<IoEngine> engine_;
};

/// What it promises of backends that move bytes, on real files.
class IoEngineBytes : public IoEngineContract {};

TEST_P(IoEngineBytes, BringsBackWhatWasWritten) {
  const File file = scratch(DirectMode::kAuto);
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, 4 * kKiB, kBlock - 4 * kKiB, std::uint64_t{kBlock}, kBlock + 4 * kKiB,
        3 * kMiB, 64 * kMiB}) {
    expect_round_trip(file, bytes, 8 * kKiB);
  }
  EXPECT_GE(engine_->stats().requests, 2 * 64 * kMiB / kBlock);
  EXPECT_EQ(engine_->stats().errors, 0U);
}

TEST_P(IoEngineBytes, TakesAnySizeAndPlaceOnBufferedFiles) {
  const File file = scratch(DirectMode::kBuffered);
  for (const std::uint64_t bytes : {1U, 13U, 4097U, kBlock - 1, kBlock + 1, 7 * kBlock + 3}) {
    expect_round_trip(file, bytes, 12345);
  }
}

TEST_P(IoEngineBytes, ThousandsOfOperationsEachWithItsOwnBytes) {
  constexpr std::uint64_t kOps = 4000;
  constexpr std::uint64_t kOpBytes = 4 * kKiB;
  const File file = scratch(DirectMode::kAuto);
  const Memory source = pages(kOps * kOpBytes);
  const Memory target = pages(kOps * kOpBytes);
  fill_random(source.span(), 1);
  for (const IoKind kind : {IoKind::kWrite, IoKind::kRead}) {
    const Memory& memory = kind == IoKind::kWrite ? source : target;
    std::deque<TestOp> ops;
    for (std::uint64_t index = 0; index < kOps; ++index) {
      TestOp& op = ops.emplace_back();
      op.set(kind, file, memory.span().subspan(index * kOpBytes, kOpBytes), index * kOpBytes);
      op.priority = static_cast<IoPriority>(index % kIoPriorities);
      engine_->submit(op);
    }
    run_until_idle(*engine_);
    for (const TestOp& op : ops) {
      ASSERT_EQ(op.calls, 1);
      ASSERT_EQ(op.error, 0);
    }
  }
  EXPECT_TRUE(same_bytes(source.span(), target.span()));
  EXPECT_EQ(engine_->stats().read_ops, kOps);
  EXPECT_EQ(engine_->stats().write_bytes, kOps * kOpBytes);
}

// An event loop sees the descriptor only: the descriptor must signal every result.
TEST_P(IoEngineContract, CompletionFdTellsOfEveryResult) {
  const File file = scratch(DirectMode::kAuto);
  const Memory memory = pages(4 * kMiB);
  ASSERT_TRUE(file.reserve(0, 4 * kMiB).has_value());
  for (int round = 0; round < 50; ++round) {
    std::deque<TestOp> ops;
    for (std::uint64_t index = 0; index < 4; ++index) {
      TestOp& op = ops.emplace_back();
      op.set(round % 2 == 0 ? IoKind::kWrite : IoKind::kRead, file,
             memory.span().subspan(index * kMiB, kMiB), index * kMiB);
      engine_->submit(op);
    }
    engine_->poll();
    while (!engine_->idle()) {
      pollfd readable{engine_->completion_fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&readable, 1, 60'000), 1) << "a result was never notified";
      engine_->poll();
    }
  }
}

TEST_P(IoEngineBytes, ReadingBeyondTheEndIsNoData) {
  const File file = scratch(DirectMode::kBuffered);
  const Memory memory = pages(20 * kBlock);
  const std::uint64_t end = 3 * kBlock + 100;
  ASSERT_EQ(run(IoKind::kWrite, file, memory.span().first(end), 0), 0);
  TestOp op(IoKind::kRead, file, memory.span(), 0);
  engine_->submit(op);
  run_until_idle(*engine_);
  EXPECT_EQ(op.error, ENODATA);
  EXPECT_GE(op.error_offset, end);
  EXPECT_LE(op.error_offset, end + kBlock * GetParam().depth);
  EXPECT_EQ(run(IoKind::kRead, file, memory.span().first(end), 0), 0) << "nothing is stuck";
  EXPECT_EQ(run(IoKind::kRead, file, memory.span().first(1), end), ENODATA);
}

TEST_P(IoEngineBytes, DirectReadingBeyondAnUnalignedEndIsNoData) {
  File file = scratch(DirectMode::kAuto);
  if (!file.direct().supported) {
    GTEST_SKIP() << file.direct().reason;
  }
  const Memory memory = pages(4 * kBlock);
  ASSERT_TRUE(file.reserve(0, kBlock + 100).has_value());
  TestOp op(IoKind::kRead, file, memory.span(), 0);
  engine_->submit(op);
  run_until_idle(*engine_);
  EXPECT_EQ(op.error, ENODATA);
  EXPECT_GE(op.error_offset, kBlock);
}

TEST_P(IoEngineBytes, WritingToAReadOnlyFileIsEbadf) {
  const std::string path = directory_ / "data";
  const Memory memory = pages(4 * kBlock);
  ASSERT_EQ(run(IoKind::kWrite, *File::open(path, File::Access::kCreate, DirectMode::kBuffered),
                memory.span(), 0),
            0);
  const Result<File> file = File::open(path, File::Access::kRead);
  TestOp op(IoKind::kWrite, *file, memory.span(), 0);
  engine_->submit(op);
  run_until_idle(*engine_);
  EXPECT_EQ(op.error, EBADF);
  EXPECT_EQ(op.error_offset, 0U);
  EXPECT_EQ(run(IoKind::kRead, *file, memory.span(), 0), 0);
}

TEST_P(IoEngineContract, DemandIsServedBeforeWhatCanWait) {
  const File file = scratch(DirectMode::kAuto);
  const Memory memory = pages(4 * kBlock);
  struct OrderedOp : TestOp {
    std::vector<OrderedOp*>* order = nullptr;
  };
  std::vector<OrderedOp*> order;
  OrderedOp ops[3];
  for (const std::size_t index : {2U, 1U, 0U}) {
    OrderedOp& op = ops[index];
    op.set(IoKind::kWrite, file, memory.span(), index * memory.bytes());
    op.priority = static_cast<IoPriority>(index);
    op.order = &order;
    op.on_complete = [](IoOp& done) noexcept {
      auto& ordered = static_cast<OrderedOp&>(done);
      ordered.order->push_back(&ordered);
    };
    engine_->submit(op);
  }
  run_until_idle(*engine_);
  ASSERT_EQ(order.size(), 3U);
  if (GetParam().depth == 1) {
    EXPECT_EQ(order, (std::vector<OrderedOp*>{&ops[0], &ops[1], &ops[2]}));
  }
}

TEST_P(IoEngineContract, CancelledOperationsEndAndOthersGoOn) {
  const File file = scratch(DirectMode::kAuto);
  const Memory memory = pages(32 * kBlock);
  std::deque<TestOp> ops;
  for (int index = 0; index < 3; ++index) {
    TestOp& op = ops.emplace_back();
    op.set(IoKind::kWrite, file, memory.span(), 0);
    engine_->submit(op);
  }
  engine_->poll();
  engine_->cancel(ops[0]);  // partly issued
  engine_->cancel(ops[2]);  // not yet begun
  run_until_idle(*engine_);
  EXPECT_EQ(ops[0].error, ECANCELED);
  EXPECT_EQ(ops[1].error, 0);
  EXPECT_EQ(ops[2].error, ECANCELED);
}

TEST_P(IoEngineContract, CallbacksMayResubmitAndDestroy) {
  struct ChainOp : TestOp {
    IoEngine* engine = nullptr;
    int* left = nullptr;
  };
  const File file = scratch(DirectMode::kAuto);
  const Memory memory = pages(kBlock + 4 * kKiB);
  int left = 100;
  auto* const op = new ChainOp;
  op->set(IoKind::kWrite, file, memory.span(), 0);
  op->engine = engine_.get();
  op->left = &left;
  op->on_complete = [](IoOp& done) noexcept {
    auto& chain = static_cast<ChainOp&>(done);
    EXPECT_EQ(chain.error, 0);
    if (--*chain.left == 0) {
      delete &chain;
      return;
    }
    chain.kind = chain.kind == IoKind::kRead ? IoKind::kWrite : IoKind::kRead;
    chain.engine->submit(chain);
  };
  engine_->submit(*op);
  run_until_idle(*engine_);
  EXPECT_EQ(left, 0);
}

TEST_P(IoEngineBytes, RegisteredMemoryBehavesLikeAnyOther) {
  const File file = scratch(DirectMode::kAuto);
  const Memory registered = pages(4 * kMiB);
  const Memory plain = pages(4 * kMiB);
  const std::span<std::byte> middle = registered.span().subspan(kMiB, 2 * kMiB);
  if (const Result<void> result = engine_->register_memory(middle); !result) {
    ASSERT_EQ(result.error().system_errno(), ENOMEM) << result.error().message;
    GTEST_SKIP() << result.error().message;
  }
  fill_random(registered.span(), 5);
  // From before its begin to beyond its end, so that pieces are inside, outside and across.
  ASSERT_EQ(run(IoKind::kWrite, file, registered.span().subspan(4 * kKiB), 0), 0);
  ASSERT_EQ(run(IoKind::kRead, file, plain.span().subspan(4 * kKiB), 0), 0);
  EXPECT_TRUE(same_bytes(registered.span().subspan(4 * kKiB), plain.span().subspan(4 * kKiB)));
  fill_random(registered.span(), 6);
  ASSERT_EQ(run(IoKind::kRead, file, registered.span().subspan(4 * kKiB), 0), 0);
  EXPECT_TRUE(same_bytes(registered.span().subspan(4 * kKiB), plain.span().subspan(4 * kKiB)));
  engine_->unregister_memory(middle);
  ASSERT_EQ(run(IoKind::kRead, file, registered.span().subspan(4 * kKiB), 0), 0);
}

TEST_P(IoEngineContract, SteadyStateAllocatesNothing) {
  const File file = scratch(DirectMode::kAuto);
  std::deque<TestOp> ops(20);
  const Memory memory = pages(ops.size() * kMiB);  // each its own: they run at once
  const auto run_all = [&](IoKind kind) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      ops[i].set(kind, file, memory.span().subspan(i * kMiB, kMiB), 0);
      engine_->submit(ops[i]);
    }
    run_until_idle(*engine_);
  };
  run_all(IoKind::kWrite);
  const std::uint64_t before = allocations_of_this_thread();
  run_all(IoKind::kRead);
  run_all(IoKind::kWrite);
  EXPECT_EQ(allocations_of_this_thread(), before);
}

TEST_P(IoEngineContract, IdleEnginesHaveNothingToWaitFor) {
  EXPECT_TRUE(engine_->idle());
  engine_->wait();
  EXPECT_EQ(engine_->poll(), 0U);
  EXPECT_FALSE(engine_->name().empty());
}

TEST_P(IoEngineContract, MayBeDestroyedWithWorkInFlight) {
  const File file = scratch(DirectMode::kAuto);
  const Memory memory = pages(16 * kMiB);
  TestOp op(IoKind::kWrite, file, memory.span(), 0);
  engine_->submit(op);
  engine_->poll();
  engine_.reset();
  EXPECT_EQ(op.calls, 1);
  EXPECT_TRUE(op.error == 0 || op.error == ECANCELED);
}

// What would kill the process by SIGXFSZ, were that not ignored here and blocked on an event loop.
bool fails_at_the_file_size_limit(IoEngine& engine, const File& file, std::uint64_t limit_bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{limit_bytes, limit_bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const Memory memory = pages(4 * limit_bytes);
  TestOp op(IoKind::kWrite, file, memory.span(), 0);
  engine.submit(op);
  run_until_idle(engine);
  return op.error == EFBIG && op.error_offset == limit_bytes;
}

TEST_P(IoEngineBytes, AFileSizeLimitIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const File file = scratch(DirectMode::kBuffered);
  EXPECT_EXIT(std::_Exit(fails_at_the_file_size_limit(*engine_, file, 2 * kBlock) ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

// Fast enough to be no matter here.
Result<std::unique_ptr<IoEngine>> make_throttled(const IoEngineOptions& options) {
  return make_throttled_engine({64 * kGiB, 64 * kGiB, 1000}, options);
}

template <UringMode kMode>
Result<std::unique_ptr<IoEngine>> make_uring(const IoEngineOptions& options) {
  return make_uring_engine(options, kMode);
}

std::vector<EngineCase> cases() {
  std::vector<EngineCase> all;
  for (const std::uint32_t depth : {1U, 8U}) {
    const std::string suffix = "_depth" + std::to_string(depth);
    all.push_back({"uring" + suffix, make_uring<UringMode::kDeferred>, depth});
    all.push_back({"uring_cooperative" + suffix, make_uring<UringMode::kCooperative>, depth});
    all.push_back({"uring_plain" + suffix, make_uring<UringMode::kPlain>, depth});
    all.push_back({"aio" + suffix, make_aio_engine, depth});
    all.push_back({"threads" + suffix, make_thread_engine, depth});
    all.push_back({"throttled" + suffix, make_throttled, depth});
  }
  return all;
}

std::vector<EngineCase> cases_with_null() {
  std::vector<EngineCase> all = cases();
  for (const std::uint32_t depth : {1U, 8U}) {
    all.push_back({"null_depth" + std::to_string(depth), make_null_engine, depth});
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<EngineCase>& engine) {
  return engine.param.name;
}

INSTANTIATE_TEST_SUITE_P(Engines, IoEngineContract, testing::ValuesIn(cases_with_null()), name_of);
INSTANTIATE_TEST_SUITE_P(Engines, IoEngineBytes, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace penstock
