// Each kind of decision is a line of the log. The drive is simulated and the test drives the queue,
// so that all happens in one order.

#include <gmock/gmock.h>

#include "alloc/bytes.h"
#include "io/sim_disk.h"
#include "io/sim_engine.h"
#include "swap/swap_engine.h"
#include "tests/alloc/random_bytes.h"
#include "tests/swap/log_fixture.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr std::uint64_t kBytes = 4 * kMiB;

class SwapEngineLogTest : public LogFixture {
 protected:
  void open(std::uint64_t max_pinned_bytes, std::uint64_t ram_bytes, EngineConfig config = {},
            std::vector<PathConfig> paths = {{"/a", std::nullopt, std::nullopt}}) {
    log_to(path());
    SwapEngineOptions options;
    options.config = std::move(config);
    Budgets budgets;
    budgets.max_pinned_bytes = max_pinned_bytes;
    budgets.ram_bytes = ram_bytes;
    budgets.max_pinned_given = true;
    budgets.ram_given = true;
    budgets.quarter_bytes = kGiB;
    options.budgets = budgets;
    options.file_system = &disk_;
    options.make_queue = [this](const IoEngineOptions& io) -> Result<std::unique_ptr<IoQueue>> {
      return IoQueue::start_for_caller(make_sim_engine(disk_, io));
    };
    options.warn = [this](const Warning& warning) { warnings_.push_back(warning); };
    engine_ = SwapEngine::open(std::move(options)).value();
    space_ = engine_->open_namespace("test", std::move(paths)).value();
  }
  TensorId declare(const std::string& name, std::uint64_t bytes = kBytes) {
    return engine_->declare(space_, {name, DType::kU8, {bytes}, Role::kParam}).value();
  }
  Result<void> put(TensorId tensor, std::uint64_t bytes = kBytes) {
    const std::vector<std::byte> content = random_bytes(bytes, 1);
    return engine_->put(tensor, content).wait();
  }
  /// Tensors on the drive, `count` of them, and a plan.
  std::vector<TensorId> put_and_plan(unsigned count) {
    std::vector<TensorId> tensors;
    for (unsigned i = 0; i < count; ++i) {
      tensors.push_back(declare("t" + std::to_string(i)));
      EXPECT_TRUE(put(tensors.back()).has_value());
    }
    EXPECT_TRUE(engine_->plan().has_value());
    return tensors;
  }
  void set_rate(SimFault fault, double rate) {
    std::array<double, kSimFaults> rates{};
    rates[static_cast<std::size_t>(fault)] = rate;
    disk_.set_rates(rates);
  }

  SimDisk disk_{{}};
  std::vector<Warning> warnings_;
  std::unique_ptr<SwapEngine> engine_;
  NamespaceId space_{};
};

TEST_F(SwapEngineLogTest, WhereEachTensorIsPlacedAndWhy) {
  EngineConfig config;
  config.tensors = {{"kept", {}, {}, Place::kRam, "a rule"}};
  open(16 * kMiB, kBytes, config);
  declare("kept");
  declare("swapped");
  ASSERT_TRUE(engine_->plan().has_value());
  EXPECT_THAT(lines_of(LogEvent::kPlace, "kept"), Contains(HasSubstr("4.0 MiB: ram: ")));
  EXPECT_THAT(lines_of(LogEvent::kPlace, "swapped"), Contains(HasSubstr("4.0 MiB: ")));
  EXPECT_THAT(lines_of(LogEvent::kPlace), SizeIs(2));
}

TEST_F(SwapEngineLogTest, AResidentThatGivesWayToARule) {
  EngineConfig config;
  config.tensors = {{"kept", {}, {}, Place::kRam, "a rule"}};
  open(16 * kMiB, kBytes, config);
  ASSERT_TRUE(put(declare("first")).has_value());
  EXPECT_THAT(lines_of(LogEvent::kEvict), IsEmpty());
  ASSERT_TRUE(put(declare("kept")).has_value());
  EXPECT_THAT(lines_of(LogEvent::kEvict, "first"), Contains(HasSubstr("go to 'kept'")));
}

TEST_F(SwapEngineLogTest, AContentReadAheadThatGivesItsSlotUp) {
  open(12 * kMiB, 0);
  const std::vector<TensorId> tensors = put_and_plan(6);
  engine_->prefetch(std::vector{tensors[0], tensors[1]});
  const Lease pageable = engine_->get(tensors[5]).lease().value();
  EXPECT_THAT(lines_of(LogEvent::kEvict), IsEmpty());
  const auto has_come = [this](TensorId tensor) { return engine_->state(tensor)->in_memory; };
  std::vector<std::byte> elsewhere(kBytes);
  while (!has_come(tensors[0]) || !has_come(tensors[1])) {  // a wait lets the simulated drive go on
    ASSERT_TRUE(engine_->get_into(tensors[3], elsewhere).wait().has_value());
  }
  ASSERT_TRUE(engine_->get(tensors[4]).wait().has_value());
  ASSERT_EQ(engine_->stats().ahead_dropped, 1U);
  EXPECT_THAT(lines_of(LogEvent::kEvict), ElementsAre(EndsWith("its slot goes to 't4' (4.0 MiB)")));
}

TEST_F(SwapEngineLogTest, WhatIsNotReadAhead) {
  open(12 * kMiB, 0);
  const std::vector<TensorId> tensors = put_and_plan(6);
  for (int round = 0; round < 10; ++round) {
    engine_->prefetch(tensors);
  }
  EXPECT_THAT(
      lines_of(LogEvent::kSkipAhead),
      ElementsAre(AllOf(StartsWith("skip-ahead tensor='t2' 4.0 MiB are not read ahead now: "),
                        HasSubstr("no slot is free"))))
      << "the first that waits, once";
}

TEST_F(SwapEngineLogTest, APinnedSlotThatIsNotToBeHad) {
  open(12 * kMiB, 0);
  const std::vector<TensorId> tensors = put_and_plan(6);
  std::vector<Lease> held;
  for (const TensorId tensor : tensors) {
    held.push_back(engine_->get(tensor).lease().value());
  }
  const std::uint64_t pageable = engine_->stats().overflow_buffers;
  ASSERT_GT(pageable, 0U);
  EXPECT_THAT(lines_of(LogEvent::kFallback, "t5"),
              Contains(HasSubstr("pageable memory for 4.0 MiB: no pinned slot is free")));
  held.clear();
  ASSERT_TRUE(engine_->close().has_value());
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_EQ(warnings_[0].code, WarningCode::kOverflow);
  EXPECT_THAT(lines(), Contains(HasSubstr(" warning rank=0 ")).Times(1))
      << "the log has what the caller takes, too";
  EXPECT_THAT(lines(), Contains(EndsWith(warnings_[0].line())));
}

TEST_F(SwapEngineLogTest, AReadAheadThatFailsIsReadAgain) {
  open(12 * kMiB, 0);
  const std::vector<TensorId> tensors = put_and_plan(1);
  set_rate(SimFault::kReadError, 1.0);
  engine_->prefetch(tensors);
  EXPECT_TRUE(engine_->get(tensors[0]).wait().has_error());
  EXPECT_THAT(lines_of(LogEvent::kRetry, "t0"), Contains(HasSubstr("read again, on demand: ")));
  EXPECT_THAT(lines_of(LogEvent::kRefuse, "t0"), Contains(HasSubstr("Input/output error")));
}

TEST_F(SwapEngineLogTest, AWriteThatGoesToAnotherDriveAndFailsThere) {
  open(12 * kMiB, 0, {}, {{"/a", std::nullopt, std::nullopt}, {"/b", std::nullopt, std::nullopt}});
  const TensorId tensor = declare("t");
  set_rate(SimFault::kWriteError, 1.0);
  const Result<void> done = put(tensor);
  ASSERT_TRUE(done.has_error());
  EXPECT_THAT(lines_of(LogEvent::kRetry, "t"), Contains(HasSubstr(" takes it: ")).Times(1));
  EXPECT_THAT(lines_of(LogEvent::kRefuse, "t"), Contains(HasSubstr(done.error().message)).Times(1));
}

TEST_F(SwapEngineLogTest, AFullDriveIsRefusedOrKeptInRam) {
  open(12 * kMiB, 0, {}, {{"/a", std::nullopt, 6 * kMiB}});
  ASSERT_TRUE(put(declare("first")).has_value());
  ASSERT_TRUE(put(declare("second")).has_error());
  EXPECT_THAT(lines_of(LogEvent::kRefuse, "second"), Contains(HasSubstr("ram_bytes")));
  engine_.reset();
  EngineConfig config;
  config.tensors = {{"*", {}, {}, Place::kClass, {}}};
  open(12 * kMiB, kBytes, config, {{"/a", std::nullopt, 6 * kMiB}});
  ASSERT_TRUE(put(declare("third")).has_value());
  ASSERT_TRUE(put(declare("fourth")).has_value());
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_EQ(warnings_[0].code, WarningCode::kKeptInRam);
  EXPECT_THAT(warnings_[0].text, HasSubstr("fourth"));
  EXPECT_THAT(lines(), Contains(HasSubstr("[kept-in-ram] ")).Times(1));
}

TEST_F(SwapEngineLogTest, WithoutALogNothingIsWritten) {
  open(12 * kMiB, 0);
  ::unsetenv("PENSTOCK_LOG_FILE");
  ::unsetenv("PENSTOCK_LOG_LEVEL");
  engine_.reset();
  const std::size_t before = lines().size();
  SwapEngineOptions options;
  options.file_system = &disk_;
  options.make_queue = [this](const IoEngineOptions& io) -> Result<std::unique_ptr<IoQueue>> {
    return IoQueue::start_for_caller(make_sim_engine(disk_, io));
  };
  testing::internal::CaptureStderr();
  engine_ = SwapEngine::open(std::move(options)).value();
  space_ = engine_->open_namespace("test", {{"/a", std::nullopt, std::nullopt}}).value();
  put_and_plan(4);
  ASSERT_TRUE(engine_->close().has_value());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(lines().size(), before);
}

}  // namespace
}  // namespace penstock
