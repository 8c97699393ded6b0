#include "io/file_system.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include "io/sim_disk.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

/// One file system under test and a directory in it that exists.
struct Place {
  FileSystem* system = nullptr;
  std::string directory;
  std::shared_ptr<void> keep;  // whatever both need to live
};

struct Maker {
  const char* name;
  std::function<Place()> make;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// What the store may rely on, whatever the file system.
class FileSystemContract : public testing::TestWithParam<Maker> {
 protected:
  std::string path(const std::string& name) const { return place_.directory + "/" + name; }
  File open(const std::string& name, File::Access access = File::Access::kCreate) {
    return std::move(system_.open(path(name), access, DirectMode::kBuffered)).value();
  }
  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(open(name).write_at(0, bytes_of(text)));
  }
  std::string read(const std::string& name) {
    const File file = open(name, File::Access::kRead);
    std::string text(*file.size_bytes(), '\0');
    EXPECT_TRUE(file.read_at(0, std::as_writable_bytes(std::span(text))));
    return text;
  }

  Place place_ = GetParam().make();
  FileSystem& system_ = *place_.system;
  std::unique_ptr<Directory> directory_ = system_.open_directory(place_.directory).value();
};

TEST_P(FileSystemContract, WhatWasWrittenIsReadWithinTheFileOnly) {
  write("a", "water under pressure");
  const File file = open("a", File::Access::kReadWrite);
  ASSERT_TRUE(file.write_at(6, bytes_of("above")));
  EXPECT_EQ(read("a"), "water above pressure");
  std::string beyond(4, '\0');
  const Result<void> read = file.read_at(18, std::as_writable_bytes(std::span(beyond)));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().system_errno(), ENODATA);
  EXPECT_EQ(read.error().path, path("a"));
  EXPECT_TRUE(file.sync());
}

TEST_P(FileSystemContract, AFileGrowsByZerosAndIsCutOff) {
  const File file = open("a");
  ASSERT_TRUE(file.reserve(0, 8192));
  EXPECT_EQ(*file.size_bytes(), 8192U);
  ASSERT_TRUE(file.truncate(5));
  EXPECT_EQ(read("a"), std::string(5, '\0'));
  ASSERT_TRUE(file.truncate(7));
  EXPECT_EQ(read("a"), std::string(7, '\0'));
}

TEST_P(FileSystemContract, ARenamedFileReplacesTheOther) {
  write("new", "new");
  write("old", "old and longer");
  const File before = open("old", File::Access::kRead);
  ASSERT_TRUE(directory_->rename("new", "old"));
  EXPECT_EQ(read("old"), "new");
  EXPECT_EQ(*before.size_bytes(), 14U) << "who has the old one open goes on seeing it";
  EXPECT_EQ(*directory_->list(), std::vector<std::string>{"old"});
  EXPECT_TRUE(directory_->sync());
  EXPECT_EQ(directory_->rename("new", "old").error().system_errno(), ENOENT);
}

TEST_P(FileSystemContract, RemovedIsGone) {
  write("a", "x");
  ASSERT_TRUE(directory_->remove("a"));
  EXPECT_TRUE(directory_->list()->empty());
  const Result<void> again = directory_->remove("a");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().system_errno(), ENOENT);
  EXPECT_EQ(system_.open(path("a"), File::Access::kReadWrite, DirectMode::kBuffered)
                .error()
                .system_errno(),
            ENOENT);
}

TEST_P(FileSystemContract, DirectoriesAreMadeAndListedInOrder) {
  ASSERT_TRUE(system_.make_directories(path("d/e")));
  ASSERT_TRUE(system_.make_directories(path("d/e"))) << "that exist by now";
  write("d/2", "");
  write("d/1", "");
  EXPECT_EQ(*system_.open_directory(path("d")).value()->list(),
            (std::vector<std::string>{"1", "2", "e"}));
  EXPECT_EQ(system_.open_directory(path("missing")).error().system_errno(), ENOENT);
  EXPECT_EQ(system_.open_directory(path("d/1")).error().system_errno(), ENOTDIR);
  write("file", "");
  EXPECT_EQ(system_.make_directories(path("file/below")).error().system_errno(), ENOTDIR);
}

TEST_P(FileSystemContract, OneHolderOfALock) {
  const File first = open("lock");
  EXPECT_TRUE(*first.try_lock());
  {
    const File second = open("lock");
    EXPECT_FALSE(*second.try_lock());
  }
  EXPECT_TRUE(*first.try_lock()) << "it is held already";
  const File third = open("lock");
  EXPECT_FALSE(*third.try_lock()) << "closing another File did not let go of it";
  EXPECT_TRUE(third.unlock()) << "of what it does not hold";
  EXPECT_FALSE(*third.try_lock());
  EXPECT_TRUE(first.unlock());
  EXPECT_TRUE(*third.try_lock());
}

TEST_P(FileSystemContract, SharedLocksKeepAnExclusiveOneAway) {
  const File first = open("lock");
  const File second = open("lock", File::Access::kRead);
  const File third = open("lock");
  EXPECT_TRUE(*first.try_lock(File::Lock::kShared));
  EXPECT_TRUE(*second.try_lock(File::Lock::kShared));
  EXPECT_FALSE(*third.try_lock());
  EXPECT_TRUE(first.unlock());
  EXPECT_FALSE(*third.try_lock()) << "one is left";
  EXPECT_TRUE(second.unlock());
  EXPECT_TRUE(*third.try_lock());
  EXPECT_FALSE(*first.try_lock(File::Lock::kShared));
}

TEST_P(FileSystemContract, AFileIsMadeOnce) {
  const auto make = [this] {
    return directory_->open("a", File::Access::kExclusive, DirectMode::kBuffered);
  };
  EXPECT_TRUE(make());
  EXPECT_EQ(make().error().system_errno(), EEXIST);
  ASSERT_TRUE(directory_->remove("a"));
  EXPECT_TRUE(make());
}

TEST_P(FileSystemContract, ScratchFilesHaveNoName) {
  const Result<File> file = system_.create_scratch(path("scratch"), DirectMode::kAuto);
  ASSERT_TRUE(file);
  EXPECT_TRUE(system_.open_directory(path("scratch")).value()->list()->empty());
  EXPECT_GT(system_.free_bytes(path("scratch")).value_or(0), 0U);
}

Place machine() {
  const auto directory = std::make_shared<TempDirectory>();
  return {&os_file_system(), directory->path(), directory};
}

Place simulated() {
  const auto disk = std::make_shared<SimDisk>(SimDiskOptions{});
  EXPECT_TRUE(disk->make_directories("/sim"));
  return {disk.get(), "/sim", disk};
}

INSTANTIATE_TEST_SUITE_P(FileSystems, FileSystemContract,
                         testing::Values(Maker{"machine", machine}, Maker{"simulated", simulated}),
                         [](const auto& maker) { return maker.param.name; });

/// A real file system of its own, on a loop device; needs root.
class LoopFileSystem : public testing::Test {
 protected:
  void SetUp() override {
    const std::string image = directory_ / "image";
    mount_ = directory_ / "mount";
    const std::string command = "(truncate -s 24M " + image + " && mkfs.ext4 -q " + image +
                                " && mkdir " + mount_ + " && mount -o loop " + image + " " +
                                mount_ + ") > " + (directory_ / "log") + " 2>&1";
    mounted_ = ::geteuid() == 0 && std::system(command.c_str()) == 0;
    if (!mounted_) {
      GTEST_SKIP() << "cannot mount a file system here (needs root and a loop device)";
    }
  }
  void TearDown() override {
    if (mounted_) {
      EXPECT_EQ(std::system(("umount " + mount_).c_str()), 0);
    }
  }

  TempDirectory directory_;
  std::string mount_;
  bool mounted_ = false;
};

TEST_F(LoopFileSystem, WhatCannotBeReservedLeavesTheRoomToOthers) {
  FileSystem& system = os_file_system();
  const File file = std::move(system.create_scratch(mount_, DirectMode::kAuto)).value();
  ASSERT_TRUE(file.reserve(0, 1 << 20));
  const std::uint64_t free = system.free_bytes(mount_).value();
  const Result<void> reserved = file.reserve(1 << 20, 64 << 20);
  ASSERT_FALSE(reserved);
  EXPECT_EQ(reserved.error().system_errno(), ENOSPC);
  EXPECT_EQ(*file.size_bytes(), 1U << 20);
  EXPECT_GE(system.free_bytes(mount_).value() + (64 << 10), free);
}

TEST_F(LoopFileSystem, WhatCannotBeReservedCutsOffNoOtherThreadsPart) {
  for (int round = 0; round < 200; ++round) {
    const File file = std::move(os_file_system().create_scratch(mount_, DirectMode::kAuto)).value();
    std::latch both(2);
    std::thread too_much([&] {
      both.arrive_and_wait();
      EXPECT_FALSE(file.reserve(8 << 20, 64 << 20));
    });
    both.arrive_and_wait();
    const bool reserved = file.reserve(0, 1 << 20).has_value();  // not while the disk is full
    too_much.join();
    ASSERT_EQ(*file.size_bytes(), reserved ? 1U << 20 : 0) << "round " << round;
  }
}

}  // namespace
}  // namespace penstock
