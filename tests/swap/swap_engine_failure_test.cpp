#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <future>
#include <thread>

#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

/// A drive that holds so many bytes: what a full disk looks like to the engine.
class SwapEngineFailureTest : public EngineFixture {
 protected:
  void open_small(std::uint64_t drive_bytes, std::uint64_t ram_bytes) {
    open(8 * kMiB, ram_bytes);
    PathConfig small{directory_.path(), std::nullopt, drive_bytes};
    space_ = engine_->open_namespace("small", {small}).value();
  }
};

TEST_F(SwapEngineFailureTest, AFullDriveIsOneErrorAndTheLastContentStands) {
  open_small(6 * kMiB, 0);
  const TensorId tensor = declare("t", 4 * kMiB);
  put(tensor, content(4 * kMiB, 1));
  const Ticket second = engine_->put(tensor, content(4 * kMiB, 2));
  ASSERT_TRUE(second.wait().has_error());
  const Error error = second.wait().error();
  EXPECT_EQ(error.system_errno(), ENOSPC);
  EXPECT_EQ(error.tensor, "t");
  EXPECT_EQ(error.path, directory_.path());
  EXPECT_NE(error.message.find("ram_bytes"), std::string::npos) << error.message;
  expect_content(tensor, content(4 * kMiB, 1));
  EXPECT_TRUE(engine_->check().has_value()) << "reported once, by the ticket";
}

TEST_F(SwapEngineFailureTest, ATensorWhoseFirstPutFailsWasNeverDeclared) {
  open_small(6 * kMiB, 0);
  const auto declare_to_put = [this](std::uint64_t bytes) {
    return engine_->declare_to_put(space_, {"t", DType::kU8, {bytes}, Role::kParam}).value();
  };
  const TensorId large = declare_to_put(8 * kMiB);
  EXPECT_EQ(engine_->put(large, content(8 * kMiB, 1)).wait().error().system_errno(), ENOSPC);
  EXPECT_FALSE(engine_->find(space_, "t").has_value());
  EXPECT_TRUE(engine_->tensors(space_).empty());
  const TensorId wrong = declare_to_put(4 * kMiB);
  EXPECT_TRUE(engine_->put(wrong, content(kMiB, 1)).wait().has_error());
  EXPECT_FALSE(engine_->find(space_, "t").has_value());
  const TensorId tensor = declare_to_put(4 * kMiB);
  put(tensor, content(4 * kMiB, 2));
  EXPECT_TRUE(engine_->put(tensor, content(4 * kMiB, 3)).wait().has_error());
  EXPECT_TRUE(engine_->find(space_, "t").has_value()) << "it has a content";
  expect_content(tensor, content(4 * kMiB, 2));
}

TEST_F(SwapEngineFailureTest, AFailureWithoutAWaitIsReportedByTheNextCall) {
  open_small(6 * kMiB, 0);
  const TensorId tensor = declare("t", 4 * kMiB);
  put(tensor, content(4 * kMiB, 1));
  (void)commit(tensor, content(4 * kMiB, 2));
  const Result<void> flushed = engine_->flush();
  ASSERT_TRUE(flushed.has_error());
  EXPECT_EQ(flushed.error().system_errno(), ENOSPC);
  EXPECT_TRUE(engine_->check().has_value()) << "reported once";
  (void)commit(tensor, content(4 * kMiB, 3));
  EXPECT_TRUE(engine_->flush().has_error()) << "it is not on the drive either";
  expect_content(tensor, content(4 * kMiB, 3));
}

TEST_F(SwapEngineFailureTest, AFailureThatWasOnlyLookedAtIsReportedByTheNextCall) {
  open_small(6 * kMiB, 0);
  const TensorId tensor = declare("t", 4 * kMiB);
  put(tensor, content(4 * kMiB, 1));
  EXPECT_EQ(Ticket().error(), nullptr);
  {
    const Ticket failed = commit(tensor, content(4 * kMiB, 2));
    while (!failed.done()) {
      std::this_thread::yield();
    }
    ASSERT_NE(failed.error(), nullptr);
    EXPECT_EQ(failed.error()->system_errno(), ENOSPC);
  }
  EXPECT_TRUE(engine_->check().has_error());
  EXPECT_TRUE(engine_->check().has_value()) << "reported once";
}

TEST_F(SwapEngineFailureTest, EveryLostPutIsReported) {
  open_small(6 * kMiB, 0);
  const TensorId tensor = declare("t", 4 * kMiB);
  put(tensor, content(4 * kMiB, 1));
  EXPECT_TRUE(engine_->put(tensor, content(4 * kMiB, 2)).wait().has_error());
  for (unsigned round = 0; round < 3; ++round) {
    (void)engine_->put(tensor, content(4 * kMiB, 3));
    EXPECT_TRUE(engine_->flush().has_error()) << round;
    EXPECT_TRUE(engine_->flush().has_value()) << round;
    expect_content(tensor, content(4 * kMiB, 1));
  }
}

TEST_F(SwapEngineFailureTest, ACommittedContentStaysInMemoryWhenItsWriteFails) {
  open_small(6 * kMiB, 0);
  const TensorId tensor = declare("t", 4 * kMiB);
  put(tensor, content(4 * kMiB, 1));
  EXPECT_TRUE(commit(tensor, content(4 * kMiB, 2)).wait().has_error());
  expect_content(tensor, content(4 * kMiB, 2));
  expect_content(tensor, content(4 * kMiB, 2));
}

TEST_F(SwapEngineFailureTest, AFullDriveSpillsIntoRamWithinItsBudget) {
  open_small(6 * kMiB, 5 * kMiB);
  const TensorId resident = declare("resident", 1 * kMiB);
  put(resident, content(kMiB, 9));
  const TensorId a = declare("a", 5 * kMiB);
  put(a, content(5 * kMiB, 1));  // does not fit beside the resident: goes to the drive
  const TensorId b = declare("b", 4 * kMiB + 1);
  const Ticket refused = engine_->put(b, content(4 * kMiB + 1, 2));
  EXPECT_TRUE(refused.wait().has_error()) << "neither drive nor RAM has room";
  (void)engine_->check();
  ASSERT_TRUE(engine_->forget(resident).has_value());
  put(b, content(4 * kMiB + 1, 3));
  expect_content(a, content(5 * kMiB, 1));
  expect_content(b, content(4 * kMiB + 1, 3));
}

TEST_F(SwapEngineFailureTest, RoomOnTheDriveIsUsedAgainAfterAFailure) {
  open_small(9 * kMiB, 0);
  const TensorId a = declare("a", 4 * kMiB);
  const TensorId b = declare("b", 4 * kMiB);
  put(a, content(4 * kMiB, 1));
  put(b, content(4 * kMiB, 2));
  EXPECT_TRUE(engine_->put(a, content(4 * kMiB, 3)).wait().has_error());
  (void)engine_->check();
  ASSERT_TRUE(engine_->forget(b).has_value());
  put(a, content(4 * kMiB, 4));
  expect_content(a, content(4 * kMiB, 4));
}

// A new content lies beside the old one until it is whole: a drive with room for one more suffices.
TEST_F(SwapEngineFailureTest, SpaceIsBackWhenTicketAndFlushSayThatAWriteIsDone) {
  constexpr std::uint64_t kStored = kMiB + 4096;
  open_small(3 * kStored, 0);
  const std::array tensors{declare("a", kMiB), declare("b", kMiB)};
  const std::vector<std::byte> data = content(kMiB, 1);
  put(tensors[0], data);
  put(tensors[1], data);
  for (std::size_t round = 0; round < 200; ++round) {
    std::promise<std::uint64_t> taken;
    engine_->put(tensors[round % 2], data).then([&](const Ticket& written) {
      EXPECT_TRUE(written.wait().has_value()) << round;
      taken.set_value(engine_->stats().drive_bytes);
    });
    ASSERT_EQ(taken.get_future().get(), 2 * kStored) << round;
    (void)engine_->put(tensors[(round + 1) % 2], data);
    ASSERT_TRUE(engine_->flush().has_value()) << round;
    ASSERT_EQ(engine_->stats().drive_bytes, 2 * kStored) << round;
  }
  expect_content(tensors[0], data);
  expect_content(tensors[1], data);
}

TEST_F(SwapEngineFailureTest, PathsThatCannotBeNameThemselves) {
  open(8 * kMiB, 0);
  std::ofstream(directory_ / "file") << "in the way";
  const auto refused =
      engine_->open_namespace("bad", {{directory_ / "file", std::nullopt, std::nullopt}});
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().path, directory_ / "file");
}

TEST_F(SwapEngineFailureTest, AnEngineThatLosesEverythingIsRefused) {
  SwapEngineOptions options;
  options.config.engine = EngineKind::kNull;
  const auto refused = SwapEngine::open(options);
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().code, Fault::kConfiguration);
  EXPECT_NE(refused.error().message.find("null"), std::string::npos);
}

}  // namespace
}  // namespace penstock
