#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/file.h"
#include "tests/faults/child.h"
#include "tests/faults/fault_fixture.h"

namespace penstock {
namespace {

class PathsTest : public FaultTest {
 protected:
  /// Opening a namespace there must fail, clearly, with the path itself named.
  void expect_refused(const std::string& path, const std::string& expected) {
    const auto refused = engine_->open_namespace("refused", {{path, std::nullopt, std::nullopt}});
    ASSERT_TRUE(refused.has_error());
    EXPECT_EQ(clear(refused.error()), expected) << refused.error().message;
    EXPECT_EQ(refused.error().path, path);
    happened("opening: " + short_name(refused.error()));
  }
  TensorId put_one() {
    const TensorId tensor = declare("t", kMiB + 5);
    put(tensor, content(kMiB + 5, 1));
    return tensor;
  }
};

TEST_F(PathsTest, AMissingDirectory) {
  fault_is("missing path", "a directory three levels below what there is");
  open_on(directory_ / "a/b/c");
  happened("it is made");
  expect_good_copy(put_one(), content(kMiB + 5, 1));
}

TEST_F(PathsTest, AFileInTheWay) {
  fault_is("a file where the directory should be", "a regular file of that name");
  open_on("");
  std::ofstream(directory_ / "file") << "mine";
  expect_refused(directory_ / "file", "ENOTDIR");
  std::string kept;
  std::ifstream(directory_ / "file") >> kept;
  EXPECT_EQ(kept, "mine");
  expect_good_copy(put_one(), content(kMiB + 5, 1));
}

TEST_F(PathsTest, PathsThatAreNone) {
  fault_is("impossible path", "empty, a name of 300 letters, a loop of symbolic links");
  open_on("");
  expect_refused("", "ENOENT");
  expect_refused(directory_ / std::string(300, 'x'), "ENAMETOOLONG");
  ASSERT_EQ(::symlink((directory_ / "loop").c_str(), (directory_ / "loop").c_str()), 0);
  expect_refused(directory_ / "loop", "ELOOP");
}

TEST_F(PathsTest, AnotherUsersDirectory) {
  fault_is("unwritable path", "another user's directory, as an ordinary user");
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to have two users";
  }
  const std::string mine = directory_ / "mine";
  ASSERT_EQ(::mkdir(mine.c_str(), 0700), 0);
  const auto refused = [&]() -> std::string {
    if (const std::string why = become_ordinary_user(directory_.path()); !why.empty()) {
      return "opening: EACCES";  // nothing can be shown there
    }
    open_on("");
    const auto space = engine_->open_namespace("refused", {{mine, std::nullopt, std::nullopt}});
    return "opening: " + (space ? "succeeded" : clear(space.error()));
  };
  PENSTOCK_EXPECT_IN_CHILD(refused(), "opening: EACCES");
  happened("opening: EACCES");
}

TEST_F(PathsTest, AReadOnlyFileSystem) {
  fault_is("read-only file system", "tmpfs remounted read-only");
  const RamDrive drive(8 * kMiB, true);
  PENSTOCK_NEED(drive);
  open_on("");
  expect_refused(drive.path(), "EROFS");
  expect_good_copy(put_one(), content(kMiB + 5, 1));
}

TEST_F(PathsTest, ADirectoryThatVanishes) {
  fault_is("vanishing path", "the directory is removed under a running engine");
  open_on(directory_ / "gone");
  const TensorId tensor = put_one();
  std::filesystem::remove_all(directory_ / "gone");
  expect_good_copy(tensor, content(kMiB + 5, 1));
  put(tensor, content(kMiB + 5, 2));
  expect_good_copy(tensor, content(kMiB + 5, 2));
  happened("all goes on: scratch files have no names");
  ASSERT_TRUE(
      engine_->open_namespace("again", {{directory_ / "gone", std::nullopt, std::nullopt}}));
}

TEST_F(PathsTest, ADriveThatIsUnmounted) {
  fault_is("unmounted drive", "ext4, `umount --lazy` under a running engine");
  LoopDrive drive(32 * kMiB);
  PENSTOCK_NEED(drive);
  open_on(drive.path());
  const TensorId tensor = put_one();
  drive.detach();
  expect_good_copy(tensor, content(kMiB + 5, 1));
  put(tensor, content(kMiB + 5, 2));
  expect_good_copy(tensor, content(kMiB + 5, 2));
  happened("all goes on until the engine closes");
}

TEST_F(PathsTest, AFileSystemInRam) {
  fault_is("swap directory in RAM", "tmpfs");
  const RamDrive drive(32 * kMiB);
  PENSTOCK_NEED(drive);
  open_on(drive.path());
  expect_good_copy(put_one(), content(kMiB + 5, 1));
  happened("all succeeds");
}

TEST_F(PathsTest, AFileSystemWithoutDirectIo) {
  fault_is("file system without O_DIRECT", "ramfs, which has no fallocate either");
  const RamDrive drive{RamDrive::WithoutDirectIo{}};
  PENSTOCK_NEED(drive);
  ASSERT_FALSE(File::create_scratch(drive.path())->direct().supported);
  open_on(drive.path());
  const TensorId tensor = put_one();
  expect_good_copy(tensor, content(kMiB + 5, 1));
  put(tensor, content(kMiB + 5, 2));
  expect_good_copy(tensor, content(kMiB + 5, 2));
  happened("all succeeds, buffered");
}

}  // namespace
}  // namespace penstock
