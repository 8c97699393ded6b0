#include <gtest/gtest.h>

#include "tests/faults/fault_fixture.h"

namespace penstock {
namespace {

class FailingBlocksTest : public FaultOnEveryEngine {
 protected:
  /// Two tensors, of 4 MiB unless said, the first at the beginning of the drive, the second behind
  /// it.
  void put_two(const std::string& path, EngineConfig config = {},
               std::uint64_t first_bytes = 4 * kMiB) {
    open_on(path, first_bytes + 4 * kMiB, 0, std::move(config));
    first_ = declare("first", first_bytes);
    second_ = declare("second", 4 * kMiB);
    put(first_, content(first_bytes, 1));
    put(second_, content(4 * kMiB, 2));
  }

  TensorId first_{};
  TensorId second_{};
};

TEST_P(FailingBlocksTest, ALoopDeviceWhoseFileWasCut) {
  fault_is("EIO: blocks that cannot be read",
           "ext4 on a loop device whose file is cut to 1 MiB, later whole again");
  LoopDrive drive(64 * kMiB);
  PENSTOCK_NEED(drive);
  put_two(drive.path());
  drive.cut(kMiB);
  expect_failed("get", engine_->get(first_).wait(), "EIO");
  std::vector<std::byte> target(4 * kMiB);
  EXPECT_EQ(clear(engine_->get_into(second_, target).wait().error()), "EIO");
  drive.restore();
  expect_good_copy(first_, content(4 * kMiB, 1));
  expect_good_copy(second_, content(4 * kMiB, 2));
}

TEST_P(FailingBlocksTest, ARangeThatCannotBeRead) {
  fault_is("EIO: one tensor's blocks cannot be read", "FUSE drive that fails 4 KiB, later none");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_two(drive.path(), {}, 8 * kMiB);
  drive.set_rules("reads eio 4198400 4096");  // in the second request, of 4 MiB each
  const Result<void> read = engine_->get(first_).wait();
  expect_failed("get", read, "EIO");
  EXPECT_EQ(read.error().tensor, "first");
  EXPECT_NE(read.error().message.find("offset 4194304"), std::string::npos)
      << "the request that failed: " << read.error().message;
  expect_content(second_, content(4 * kMiB, 2));
  happened("every other tensor is read");
  drive.set_rules("clear");
  expect_good_copy(first_, content(8 * kMiB, 1));
}

TEST_P(FailingBlocksTest, ReadingAheadIntoARangeThatCannotBeRead) {
  fault_is("EIO while reading ahead", "FUSE drive that fails every read, after prefetch()");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_two(drive.path());
  ASSERT_TRUE(engine_->plan().has_value());
  drive.set_rules("reads eio");
  const std::vector<TensorId> both{first_, second_};
  for (int round = 0; round < 20; ++round) {
    engine_->prefetch(both);
  }
  expect_failed("get", engine_->get(first_).wait(), "EIO");
  drive.set_rules("clear");
  expect_good_copy(first_, content(4 * kMiB, 1));
  expect_good_copy(second_, content(4 * kMiB, 2));
}

TEST_P(FailingBlocksTest, ARangeThatCannotBeWritten) {
  fault_is("EIO during a write", "FUSE drive that fails every write, later none");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_two(drive.path());
  drive.set_rules("writes eio");
  (void)commit(second_, content(4 * kMiB, 4));
  expect_failed("flush after a commit", engine_->flush(), "EIO");
  expect_content(second_, content(4 * kMiB, 4));
  expect_failed("put", engine_->put(first_, content(4 * kMiB, 3)).wait(), "EIO");
  expect_good_copy(first_, content(4 * kMiB, 1));
  drive.set_rules("clear");
  put(first_, content(4 * kMiB, 5));
  expect_good_copy(first_, content(4 * kMiB, 5));
}

TEST_P(FailingBlocksTest, TransfersThatMoveAPart) {
  fault_is("short reads and writes", "FUSE drive that moves about half of each request");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  drive.set_rules("reads short");
  if (GetParam() == "threads") {
    drive.set_rules("writes short");  // of asynchronous writes the kernel's FUSE makes EIO
  }
  put_two(drive.path());
  happened("continued until all is moved");
  expect_good_copy(first_, content(4 * kMiB, 1));
  std::vector<std::byte> target(4 * kMiB + 1);
  const std::span<std::byte> unaligned = std::span(target).subspan(1);
  ASSERT_TRUE(engine_->get_into(second_, unaligned).wait().has_value());
  EXPECT_EQ(std::memcmp(unaligned.data(), content(4 * kMiB, 2).data(), 4 * kMiB), 0);
}

TEST_P(FailingBlocksTest, ADriveThatIsPulledOut) {
  fault_is("drive pulled out", "FUSE drive whose process is killed");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_two(drive.path());
  const NamespaceId elsewhere =
      engine_->open_namespace("else", {{directory_.path(), std::nullopt, std::nullopt}}).value();
  const Lease held = engine_->get(second_).lease().value();
  drive.pull();
  expect_failed("get", engine_->get(first_).wait(), "ENOTCONN");
  EXPECT_TRUE(engine_->put(first_, content(4 * kMiB, 3)).wait().has_error());
  expect_good_copy(second_, content(4 * kMiB, 2));
  good_copy_is("of what is in memory");
  space_ = elsewhere;
  const TensorId other = declare("other", kMiB);
  put(other, content(kMiB, 5));
  expect_content(other, content(kMiB, 5));
  happened("other drives go on");
}

TEST_P(FailingBlocksTest, AFileSystemThatGoesReadOnly) {
  fault_is("file system goes read-only under a running engine",
           "ext4 with errors=remount-ro, a fault set off by trigger_fs_error");
  LoopDrive drive(64 * kMiB);
  PENSTOCK_NEED(drive);
  put_two(drive.path());
  if (!drive.turn_read_only()) {
    GTEST_SKIP() << "this kernel's ext4 takes no trigger_fs_error";
  }
  const TensorId third =
      declare("third", 64 * kMiB);  // more than is laid out: needs the file system
  expect_failed("put", engine_->put(third, content(64 * kMiB, 3)).wait(), "EROFS");
  expect_good_copy(first_, content(4 * kMiB, 1));
  expect_good_copy(second_, content(4 * kMiB, 2));
}

PENSTOCK_ON_EVERY_ENGINE(FailingBlocksTest);

}  // namespace
}  // namespace penstock
