#include <gtest/gtest.h>

#include "tests/faults/fault_fixture.h"

namespace penstock {
namespace {

class FullDiskTest : public FaultOnEveryEngine {};

TEST_P(FullDiskTest, AWriteLargerThanTheDisk) {
  fault_is("full disk during a write", "tmpfs of 22 MiB, put of 64 MiB");
  const RamDrive drive(22 * kMiB);
  PENSTOCK_NEED(drive);
  open_on(drive.path());
  const TensorId small = declare("small", 6 * kMiB);
  put(small, content(6 * kMiB, 1));
  const TensorId large = declare("large", 64 * kMiB);
  const Ticket ticket = engine_->put(large, content(64 * kMiB, 2));
  expect_failed("put", ticket.wait(), "ENOSPC");
  EXPECT_TRUE(engine_->flush().has_value()) << "reported once, by the ticket";
  expect_good_copy(small, content(6 * kMiB, 1));
  EXPECT_TRUE(engine_->get(large).wait().has_error()) << "it never had a content";
  put(small, content(6 * kMiB, 3));
  expect_good_copy(small, content(6 * kMiB, 3));
  happened("what fits goes on being written");
}

TEST_P(FullDiskTest, ARewriteThatFindsNoRoomBesideTheOldContent) {
  fault_is("full disk during a rewrite", "ext4 of 22 MiB on a loop device, second put of 12 MiB");
  const LoopDrive drive(22 * kMiB);
  PENSTOCK_NEED(drive);
  open_on(drive.path());
  const TensorId tensor = declare("t", 12 * kMiB);
  put(tensor, content(12 * kMiB, 1));
  for (unsigned i = 2; i < 5; ++i) {
    const Result<void> second = engine_->put(tensor, content(12 * kMiB, i)).wait();
    if (i == 2) {
      expect_failed("put", second, "ENOSPC");
    }
    EXPECT_TRUE(second.has_error());
    expect_good_copy(tensor, content(12 * kMiB, 1));
  }
}

TEST_P(FullDiskTest, AnUpdateAbandonedAfterARewriteFailed) {
  fault_is("full disk, then an update that is given up",
           "ext4 of 22 MiB on a loop device; a lease for update is changed and "
           "dropped");
  const LoopDrive drive(22 * kMiB);
  PENSTOCK_NEED(drive);
  open_on(drive.path());
  const TensorId tensor = declare("t", 12 * kMiB);
  put(tensor, content(12 * kMiB, 1));
  expect_failed("put", engine_->put(tensor, content(12 * kMiB, 2)).wait(), "ENOSPC");
  {
    Lease lease = engine_->get(tensor, Access::kUpdate).lease().value();
    std::memset(lease.data(), 0xee, lease.bytes());
  }
  expect_good_copy(tensor, content(12 * kMiB, 1));
  ASSERT_TRUE(engine_->forget(tensor).has_value());
  EXPECT_TRUE(eventually([&] { return engine_->stats().pool.overflow_bytes == 0; }))
      << "nothing is kept without a holder";
}

TEST_P(FullDiskTest, ACommitWithoutAWait) {
  fault_is("full disk behind a commit", "tmpfs of 22 MiB, rewritten without a wait");
  const RamDrive drive(22 * kMiB);
  PENSTOCK_NEED(drive);
  open_on(drive.path());
  const TensorId tensor = declare("t", 12 * kMiB);
  put(tensor, content(12 * kMiB, 1));
  (void)commit(tensor, content(12 * kMiB, 2));
  expect_failed("flush", engine_->flush(), "ENOSPC");
  EXPECT_TRUE(engine_->check().has_value()) << "reported once";
  expect_good_copy(tensor, content(12 * kMiB, 2));
  happened("the content that was committed stays in memory");
}

TEST_P(FullDiskTest, ADriveThatPromisedMoreThanItHas) {
  fault_is("full disk found by the write itself",
           "FUSE drive that reserves nothing and refuses from 8 MiB on");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  open_on(drive.path());
  const TensorId first = declare("first", 4 * kMiB);
  const TensorId second = declare("second", 6 * kMiB);
  put(first, content(4 * kMiB, 1));
  drive.set_rules("writes enospc 8388608 1073741824");
  expect_failed("put", engine_->put(second, content(6 * kMiB, 2)).wait(), "ENOSPC");
  expect_good_copy(first, content(4 * kMiB, 1));
  drive.set_rules("clear");
  put(second, content(6 * kMiB, 3));
  expect_good_copy(second, content(6 * kMiB, 3));
  EXPECT_TRUE(eventually([&] {
    return engine_->stats().drive_bytes == 10 * kMiB + 2 * kBlockBytes;
  })) << "no extent is lost";
}

TEST_P(FullDiskTest, AFullDriveBesideOneThatIsNot) {
  fault_is("one of two drives full", "tmpfs of 4 MiB beside one of 22 MiB");
  const RamDrive tiny(4 * kMiB);
  const RamDrive roomy(22 * kMiB);
  PENSTOCK_NEED(tiny);
  PENSTOCK_NEED(roomy);
  open_on("");
  space_ = engine_
               ->open_namespace("two", {{tiny.path(), std::nullopt, std::nullopt},
                                        {roomy.path(), std::nullopt, std::nullopt}})
               .value();
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 4; ++i) {
    tensors.push_back(declare(numbered(i), 5 * kMiB));
    put(tensors.back(), content(5 * kMiB, i));
  }
  happened("the other takes it");
  for (unsigned i = 0; i < 4; ++i) {
    expect_good_copy(tensors[i], content(5 * kMiB, i));
  }
}

PENSTOCK_ON_EVERY_ENGINE(FullDiskTest);

}  // namespace
}  // namespace penstock
