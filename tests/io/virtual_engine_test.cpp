#include "io/virtual_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "io/drive_rates.h"
#include "io/io_queue.h"
#include "io/throttled_engine.h"
#include "tests/alloc/random_bytes.h"
#include "tests/alloc/same_bytes.h"
#include "tests/io/temp_directory.h"
#include "tests/io/test_op.h"

namespace penstock {
namespace {

// A MiB takes a millisecond to read and two to write.
constexpr DriveRates kRates{1000 * kMiB, 500 * kMiB, 80'000};
constexpr std::uint64_t kReadNs = 1'000'000;
constexpr std::uint64_t kWriteNs = 2'000'000;

TEST(DriveSchedule, ServesOneAfterTheOtherAndOverlapsLatencies) {
  DriveSchedule schedule(kRates);
  EXPECT_EQ(schedule.done_at(0, IoKind::kRead, kMiB), kReadNs + 80'000);
  EXPECT_EQ(schedule.done_at(0, IoKind::kRead, kMiB), 2 * kReadNs + 80'000);
  EXPECT_EQ(schedule.done_at(10, IoKind::kWrite, kMiB), 2 * kReadNs + kWriteNs + 80'000);
  // Idle since: it begins at once.
  EXPECT_EQ(schedule.done_at(9'000'000, IoKind::kRead, kMiB), 9'000'000 + kReadNs + 80'000);
}

TEST(DriveSchedule, RoundsUpToANanosecond) {
  DriveSchedule schedule({3, 3, 0});
  EXPECT_EQ(schedule.done_at(0, IoKind::kRead, 1), 333'333'334U);
  DriveSchedule fast({~0ULL / 2, 1, 0});
  EXPECT_EQ(fast.done_at(0, IoKind::kRead, 1), 1U);
}

TEST(VirtualDrive, NoOtherProcessIsInTheWayOfALock) {
  VirtualDrive drive;
  const Result<File> file = drive.create_scratch("/any", DirectMode::kAuto);
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(*file->try_lock());
  EXPECT_TRUE(file->unlock());
}

TEST(VirtualDrive, KeepsEveryByteAndWordsCheaply) {
  VirtualDrive drive;
  Result<File> file = drive.create_scratch("/any", DirectMode::kAuto);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->reserve(0, 64 * kMiB).has_value());
  const std::uint64_t empty = drive.memory_bytes();
  EXPECT_LE(empty, 64 * kMiB / 128);

  const Memory memory = pages(2 * kMiB);
  const std::vector<std::byte> random = random_bytes(kMiB, 7);
  copy_bytes(random, memory.data());
  std::fill(memory.data() + kMiB, memory.data() + 2 * kMiB, std::byte{0x5a});
  EXPECT_EQ(drive.transfer(IoKind::kWrite, file->fd(), memory.span(), 4096), 2 * kMiB);
  EXPECT_EQ(drive.memory_bytes(), empty + kMiB);  // of what repeats no word

  const Memory back = pages(2 * kMiB);
  EXPECT_EQ(drive.transfer(IoKind::kRead, file->fd(), back.span(), 4096), 2 * kMiB);
  EXPECT_TRUE(same_bytes(memory.span(), back.span()));

  // Written over by words, the memory is free again.
  std::fill(memory.data(), memory.data() + kMiB, std::byte{1});
  EXPECT_EQ(drive.transfer(IoKind::kWrite, file->fd(), memory.span(), 4096), 2 * kMiB);
  EXPECT_EQ(drive.memory_bytes(), empty);
  EXPECT_EQ(drive.transfer(IoKind::kRead, file->fd(), back.span(), 64 * kMiB), -ENODATA);
}

TEST(VirtualDrive, RefusesNames) {
  VirtualDrive drive;
  const Result<File> opened = drive.open("/x", File::Access::kCreate, DirectMode::kAuto);
  ASSERT_TRUE(opened.has_error());
  EXPECT_EQ(opened.error().system_errno(), ENOTSUP);
}

class VirtualQueue : public ::testing::Test {
 protected:
  void SetUp() override {
    queue_ = IoQueue::start_for_caller(
        std::move(make_virtual_engine(clock_, drive_, kRates, {1 << 20, 4})).value());
    file_.emplace(std::move(drive_.create_scratch("/any", DirectMode::kAuto)).value());
    ASSERT_TRUE(file_->reserve(0, 16 * kMiB).has_value());
  }
  void TearDown() override { queue_->stop(); }

  VirtualClock clock_;
  VirtualDrive drive_;
  std::optional<File> file_;
  std::unique_ptr<IoQueue> queue_;
};

TEST_F(VirtualQueue, TimeIsThatOfTheSchedule) {
  const Memory memory = pages(8 * kMiB);
  TestOp read(IoKind::kRead, *file_, memory.span(), 0);
  queue_->submit(read);
  while (queue_->step()) {
  }
  EXPECT_EQ(read.error, 0);
  // Depth 4, eight requests: each is issued when one before it ended, long before the drive is
  // free.
  EXPECT_EQ(clock_.now_ns(), 8 * kReadNs + 80'000);
  EXPECT_EQ(queue_->stats().busy_ns, clock_.now_ns());
  EXPECT_EQ(queue_->now().time_since_epoch(), std::chrono::nanoseconds(clock_.now_ns()));
}

TEST_F(VirtualQueue, NothingPassesTheHorizon) {
  const Memory memory = pages(2 * kMiB);
  TestOp read(IoKind::kRead, *file_, memory.span(), 0);
  queue_->submit(read);
  clock_.set_horizon_ns(kReadNs / 2);
  EXPECT_TRUE(queue_->step());
  EXPECT_TRUE(queue_->step());
  EXPECT_EQ(clock_.now_ns(), kReadNs / 2);
  EXPECT_EQ(read.calls, 0);
  clock_.set_horizon_ns(VirtualClock::kNoHorizon);
  while (queue_->step()) {
  }
  EXPECT_EQ(read.calls, 1);
  EXPECT_EQ(clock_.now_ns(), 2 * kReadNs + 80'000);
}

TEST(ThrottledEngine, IsNoFasterThanItsRates) {
  const TempDirectory directory;
  Result<File> file = File::create_scratch(directory.path());
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_TRUE(file->reserve(0, 16 * kMiB).has_value());
  // Slower than any drive here: 64 ms for the writes, 32 for the reads.
  Result<std::unique_ptr<IoEngine>> engine =
      make_throttled_engine({512 * kMiB, 256 * kMiB, 80'000}, {1 << 20, 8});
  ASSERT_TRUE(engine.has_value()) << engine.error().message;
  const Memory out = pages(16 * kMiB);
  copy_bytes(random_bytes(16 * kMiB, 3), out.data());
  const auto begin = std::chrono::steady_clock::now();
  TestOp write(IoKind::kWrite, *file, out.span(), 0);
  (*engine)->submit(write);
  (*engine)->poll();
  run_until_idle(**engine);
  const Memory back = pages(16 * kMiB);
  TestOp read(IoKind::kRead, *file, back.span(), 0);
  (*engine)->submit(read);
  (*engine)->poll();
  run_until_idle(**engine);
  const auto passed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(write.error, 0);
  EXPECT_EQ(read.error, 0);
  EXPECT_TRUE(same_bytes(out.span(), back.span()));
  EXPECT_GE(passed, std::chrono::nanoseconds(62'500'000 + 31'250'000 + 2 * 80'000));
}

}  // namespace
}  // namespace penstock
