#include "io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "alloc/bytes.h"
#include "tests/io/syscall_fault.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

::mode_t mode_of(const std::string& path) {
  struct ::stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

class FileTest : public testing::Test {
 protected:
  TempDirectory directory_;
};

TEST_F(FileTest, ScratchLeavesNothingBehind) {
  const Result<File> file = File::create_scratch(directory_.path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_EQ(file->path(), directory_.path());
  struct ::stat info{};
  ASSERT_EQ(::fstat(file->fd(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0U);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_NE(::fcntl(file->fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(*file->size_bytes(), 0U);
}

TEST_F(FileTest, ScratchMakesMissingDirectoriesForTheirOwnerOnly) {
  const std::string missing = directory_ / "a/b//c/";
  ASSERT_TRUE(File::create_scratch(missing));
  EXPECT_EQ(mode_of(directory_ / "a"), 0700U);
  EXPECT_EQ(mode_of(missing), 0700U);
  EXPECT_TRUE(File::create_scratch(missing)) << "that exist by now";
}

TEST_F(FileTest, ALinkThatLeadsNowhereSaysSo) {
  std::filesystem::create_symlink(directory_ / "nowhere", directory_ / "dangling");
  EXPECT_EQ(File::create_scratch(directory_ / "dangling").error().system_errno(), ENOENT);
  std::filesystem::create_symlink(directory_ / "loop", directory_ / "loop");
  EXPECT_EQ(File::create_scratch(directory_ / "loop").error().system_errno(), ELOOP);
}

TEST_F(FileTest, AFileSizeLimitIsAnErrorAndNoSignal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto reserve = [this] {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{8192, 8192};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Result<File> file = File::create_scratch(directory_.path());
    const bool within = file->reserve(0, 8192).has_value();
    const Result<void> beyond = file->reserve(4096, 8192);
    return within && beyond.has_error() && beyond.error().system_errno() == EFBIG ? 0 : 1;
  };
  EXPECT_EXIT(std::_Exit(reserve()), testing::ExitedWithCode(0), "");
}

TEST_F(FileTest, AFileInTheWayIsNamed) {
  std::ofstream(directory_ / "file") << "x";
  for (const std::string& path : {directory_ / "file", directory_ / "file/below"}) {
    const Result<File> file = File::create_scratch(path);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().system_errno(), ENOTDIR);
    EXPECT_EQ(file.error().path, path);
    EXPECT_NE(file.error().message.find(path), std::string::npos) << file.error().message;
  }
}

TEST_F(FileTest, AnUnwritableDirectoryIsAnError) {
  // /proc refuses everybody, root too.
  const Result<File> file = File::create_scratch("/proc/self/penstock");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().system_errno(), 0);
  EXPECT_EQ(file.error().path, "/proc/self/penstock");
  EXPECT_FALSE(File::create_scratch(""));
  if (::geteuid() != 0) {
    const std::string locked = directory_ / "locked";
    ASSERT_EQ(::mkdir(locked.c_str(), 0500), 0);
    EXPECT_EQ(File::create_scratch(locked).error().system_errno(), EACCES);
  }
}

TEST_F(FileTest, OpenCreatesButNeverTruncates) {
  const std::string path = directory_ / "data";
  EXPECT_EQ(File::open(path, File::Access::kRead).error().system_errno(), ENOENT);
  EXPECT_EQ(File::open(path, File::Access::kReadWrite).error().path, path);
  {
    const Result<File> file = File::open(path, File::Access::kCreate, DirectMode::kBuffered);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(mode_of(path), 0600U);
    ASSERT_EQ(::pwrite(file->fd(), "penstock", 8, 0), 8);
  }
  const Result<File> again = File::open(path, File::Access::kCreate);
  EXPECT_EQ(*again->size_bytes(), 8U);
  EXPECT_EQ(again->path(), path);
}

TEST_F(FileTest, MovingMovesTheDescriptor) {
  Result<File> first = File::create_scratch(directory_.path());
  Result<File> second = File::create_scratch(directory_.path());
  ASSERT_TRUE(first && second);
  const int first_fd = first->fd();
  const int second_fd = second->fd();
  File moved = std::move(*first);
  EXPECT_EQ(moved.fd(), first_fd);
  EXPECT_EQ(first->fd(), -1);
  moved = std::move(*second);
  EXPECT_EQ(moved.fd(), second_fd);
  EXPECT_EQ(::fcntl(first_fd, F_GETFD), -1) << "the first was closed";
}

TEST_F(FileTest, DirectFactsAreWhatTheFileDoes) {
  const Result<File> file = File::create_scratch(directory_.path());
  ASSERT_TRUE(file);
  const DirectIo& direct = file->direct();
  const bool flagged = (::fcntl(file->fd(), F_GETFL) & O_DIRECT) != 0;
  EXPECT_EQ(flagged, direct.supported);
  EXPECT_EQ(direct.supported, direct.reason.empty());
  if (!direct.supported) {
    GTEST_SKIP() << direct.reason;
  }
  for (const std::uint32_t alignment : {direct.memory_alignment, direct.offset_alignment}) {
    EXPECT_GE(alignment, 1U);
    EXPECT_LE(alignment, 64 * kKiB);
    EXPECT_EQ(alignment & (alignment - 1), 0U);
  }
  alignas(64 * kKiB) static std::byte block[64 * kKiB];
  EXPECT_EQ(::pwrite(file->fd(), block, direct.offset_alignment, 0),
            static_cast<ssize_t>(direct.offset_alignment));
}

TEST_F(FileTest, BufferedOnRequest) {
  const Result<File> file = File::create_scratch(directory_.path(), DirectMode::kBuffered);
  EXPECT_FALSE(file->direct().supported);
  EXPECT_EQ(file->direct().memory_alignment, 1U);
  EXPECT_EQ(file->direct().offset_alignment, 1U);
  EXPECT_FALSE(file->direct().reason.empty());
  EXPECT_EQ(::pwrite(file->fd(), "x", 1, 3), 1);
}

TEST_F(FileTest, ReserveMovesTheEndAndNeverBack) {
  const Result<File> file = File::create_scratch(directory_.path());
  ASSERT_TRUE(file->reserve(kMiB, kMiB).has_value());
  EXPECT_EQ(*file->size_bytes(), 2 * kMiB);
  ASSERT_TRUE(file->reserve(0, kMiB).has_value());
  EXPECT_EQ(*file->size_bytes(), 2 * kMiB);
  ASSERT_TRUE(file->reserve(5 * kMiB, 0).has_value());
  EXPECT_EQ(*file->size_bytes(), 2 * kMiB);
}

TEST_F(FileTest, ReservingTooMuchIsAnErrorWithThePath) {
  const Result<File> file = File::create_scratch(directory_.path());
  EXPECT_EQ(file->reserve(~std::uint64_t{0}, 1).error().system_errno(), EFBIG);
  const Result<void> full = file->reserve(0, std::uint64_t{1} << 62);
  ASSERT_FALSE(full);
  EXPECT_TRUE(full.error().system_errno() == ENOSPC || full.error().system_errno() == EFBIG)
      << full.error().message;
  EXPECT_EQ(full.error().path, directory_.path());
}

TEST_F(FileTest, ReserveNeedsAWritableFile) {
  const std::string path = directory_ / "data";
  std::ofstream(path) << "x";
  const Result<File> file = File::open(path, File::Access::kRead);
  EXPECT_EQ(file->reserve(0, 4096).error().system_errno(), EBADF);
}

// Each runs in a child whose kernel lacks something; the child exits with 0 where all went well.
class FileDeathTest : public FileTest {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  template <class Body>
  void expect_success_with(const SyscallFault& fault, Body body) {
    EXPECT_EXIT(
        {
          inject(fault);
          std::_Exit(body() ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
  }
};

TEST_F(FileDeathTest, WithoutTmpfileScratchIsUnlinkedAtOnce) {
  constexpr auto kTmpfile = static_cast<std::uint32_t>(O_TMPFILE & ~O_DIRECTORY);
  for (const int error : {EOPNOTSUPP, EISDIR, ENOENT}) {
    expect_success_with({SYS_openat, error, 2, kTmpfile}, [this] {
      const Result<File> file = File::create_scratch(directory_.path());
      struct ::stat info{};
      return file && ::fstat(file->fd(), &info) == 0 && info.st_nlink == 0 &&
             (info.st_mode & 0777) == 0600 && std::filesystem::is_empty(directory_.path());
    });
  }
}

TEST_F(FileDeathTest, WithoutFallocateTheEndIsMoved) {
  expect_success_with({SYS_fallocate, EOPNOTSUPP}, [this] {
    const Result<File> file = File::create_scratch(directory_.path());
    return file->reserve(kMiB, kMiB) && file->reserve(0, 4096) && *file->size_bytes() == 2 * kMiB;
  });
}

TEST_F(FileDeathTest, WithoutFallocateAFullDiskIsSaidSo) {
  expect_success_with({SYS_fallocate, ENOSPC}, [this] {
    const Result<File> file = File::create_scratch(directory_.path());
    const Result<void> reserved = file->reserve(0, kMiB);
    return !reserved && reserved.error().system_errno() == ENOSPC;
  });
}

TEST_F(FileDeathTest, WithoutDirectIoTheFileIsBufferedWithTheReason) {
  expect_success_with({SYS_fcntl, EINVAL, 2, O_DIRECT}, [this] {
    const Result<File> file = File::create_scratch(directory_.path());
    return file && !file->direct().supported && file->direct().offset_alignment == 1 &&
           !file->direct().reason.empty();
  });
}

TEST_F(FileDeathTest, WithoutStatxDirectIoAssumesTheLargestAlignment) {
  if (!File::create_scratch(directory_.path())->direct().supported) {
    GTEST_SKIP() << "no direct I/O in " << directory_.path();
  }
  expect_success_with({SYS_statx, ENOSYS}, [this] {
    const Result<File> file = File::create_scratch(directory_.path());
    return file && file->direct().supported && file->direct().memory_alignment == 4096 &&
           file->direct().offset_alignment == 4096;
  });
}

}  // namespace
}  // namespace penstock
