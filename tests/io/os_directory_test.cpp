#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "io/file_system.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

using Access = File::Access;
using testing::HasSubstr;

constexpr ::uid_t kStranger = 12345;

/// A directory whose file `a` is not what it seems, and a file elsewhere that must stay as it is.
class OsDirectoryTest : public testing::Test {
 protected:
  OsDirectoryTest() {
    std::filesystem::create_directory(place_ / "d");
    std::ofstream(victim_) << "precious";
  }
  std::string path(const std::string& name) const { return place_ / ("d/" + name); }

  /// Every access is refused with this errno, and the victim is as it was.
  void refuses(int error, const std::string& why) {
    const auto directory = os_file_system().open_directory(place_ / "d").value();
    for (const Access access : {Access::kRead, Access::kReadWrite, Access::kCreate}) {
      const Result<File> file = directory->open("a", access, DirectMode::kAuto);
      ASSERT_TRUE(file.has_error()) << static_cast<int>(access);
      EXPECT_EQ(file.error().system_errno(), error) << file.error().message;
      EXPECT_EQ(file.error().path, path("a"));
      EXPECT_THAT(file.error().message, HasSubstr(why));
    }
    EXPECT_EQ(directory->open("a", Access::kExclusive, DirectMode::kAuto).error().system_errno(),
              EEXIST);
    std::string text;
    std::getline(std::ifstream(victim_), text);
    EXPECT_EQ(text, "precious");
  }

  TempDirectory place_;
  const std::string victim_ = place_ / "victim";
};

TEST_F(OsDirectoryTest, ASymbolicLinkIsNotFollowed) {
  std::filesystem::create_symlink(victim_, path("a"));
  refuses(ELOOP, "symbolic link");
}

TEST_F(OsDirectoryTest, ADanglingLinkMakesNothing) {
  std::filesystem::create_symlink(place_ / "nothing", path("a"));
  refuses(ELOOP, "symbolic link");
  EXPECT_FALSE(std::filesystem::exists(place_ / "nothing"));
}

TEST_F(OsDirectoryTest, AHardLinkIsRefused) {
  std::filesystem::create_hard_link(victim_, path("a"));
  refuses(EMLINK, "2 names (hard links)");
}

TEST_F(OsDirectoryTest, AFifoIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  refuses(EINVAL, "not a regular file");
}

TEST_F(OsDirectoryTest, ADirectoryIsNoFile) {
  std::filesystem::create_directory(path("a"));
  const auto directory = os_file_system().open_directory(place_ / "d").value();
  EXPECT_EQ(directory->open("a", Access::kRead, DirectMode::kAuto).error().system_errno(), EINVAL);
  EXPECT_EQ(directory->open("a", Access::kCreate, DirectMode::kAuto).error().system_errno(),
            EISDIR);
}

TEST_F(OsDirectoryTest, ADeviceIsRefused) {
  if (::mknod(path("a").c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0) {
    GTEST_SKIP() << "cannot make a device here (needs root)";
  }
  const auto directory = os_file_system().open_directory(place_ / "d").value();
  const Result<File> file = directory->open("a", Access::kReadWrite, DirectMode::kAuto);
  ASSERT_TRUE(file.has_error());  // EINVAL, or EACCES where the file system has no devices
}

TEST_F(OsDirectoryTest, AnotherUsersFileIsRefused) {
  std::ofstream(path("a")) << "x";
  if (::chown(path("a").c_str(), kStranger, kStranger) != 0) {
    GTEST_SKIP() << "cannot give a file away here (needs root)";
  }
  refuses(EPERM, "belongs to user 12345");
}

TEST_F(OsDirectoryTest, TheFilesOfTheDirectorysOwnerAreFine) {
  std::ofstream(path("a")) << "x";
  if (::chown(path("a").c_str(), kStranger, kStranger) != 0 ||
      ::chown((place_ / "d").c_str(), kStranger, kStranger) != 0) {
    GTEST_SKIP() << "cannot give a file away here (needs root)";
  }
  const auto directory = os_file_system().open_directory(place_ / "d").value();
  EXPECT_TRUE(directory->open("a", Access::kReadWrite, DirectMode::kAuto));
}

TEST_F(OsDirectoryTest, AReplacedDirectoryLeadsNowhereElse) {
  const auto directory = os_file_system().open_directory(place_ / "d").value();
  std::filesystem::rename(place_ / "d", place_ / "moved");
  std::filesystem::create_directory(place_ / "other");
  std::filesystem::create_symlink(place_ / "other", place_ / "d");
  ASSERT_TRUE(directory->open("a", Access::kCreate, DirectMode::kBuffered));
  ASSERT_TRUE(directory->rename("a", "b"));
  EXPECT_TRUE(std::filesystem::exists(place_ / "moved/b"));
  EXPECT_TRUE(std::filesystem::is_empty(place_ / "other"));
}

TEST(FileOpenTest, AFifoIsNotWaitedFor) {
  const TempDirectory place;
  const std::string fifo = place / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(File::open(fifo, Access::kRead));
}

TEST(FileOpenTest, APathIsNotCutAtANul) {
  const TempDirectory place;
  const std::string cut = place / std::string("file\0rest", 9);
  for (const Access access : {Access::kRead, Access::kReadWrite, Access::kCreate}) {
    EXPECT_EQ(File::open(cut, access).error().system_errno(), EINVAL);
  }
  EXPECT_EQ(os_file_system().make_directories(cut).error().system_errno(), EINVAL);
  EXPECT_EQ(os_file_system().open_directory(cut).error().system_errno(), EINVAL);
  EXPECT_FALSE(std::filesystem::exists(place / "file"));
}

TEST(FileOpenTest, AnOpenedFileBlocks) {  // io_uring gives up early on one that does not
  const TempDirectory place;
  const File file = File::open(place / "a", Access::kCreate).value();
  EXPECT_EQ(::fcntl(file.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(OsDirectoryTest, ANewNameReplacesNothing) {
  const auto directory = os_file_system().open_directory(place_ / "d").value();
  std::ofstream(path("a")) << "old";
  std::ofstream(path("b")) << "new";
  EXPECT_EQ(directory->rename_new("b", "a").error().system_errno(), EEXIST);
  EXPECT_EQ(std::filesystem::file_size(path("b")), 3U);
  ASSERT_TRUE(directory->rename_new("b", "c").has_value());
  EXPECT_TRUE(std::filesystem::exists(path("c")) && !std::filesystem::exists(path("b")));
}

}  // namespace
}  // namespace penstock
