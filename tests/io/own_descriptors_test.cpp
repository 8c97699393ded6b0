#include "io/own_descriptors.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "io/file.h"
#include "io/uring_engine.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

/// Whether this process has a ring, by a descriptor or by its memory.
bool has_ring() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[io_uring]") != std::string::npos) {
      return true;
    }
  }
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::any_of(begin(descriptors), end(descriptors), [](const auto& entry) {
    std::error_code ignored;
    return std::filesystem::read_symlink(entry, ignored) == "anon_inode:[io_uring]";
  });
}

/// A file that this process has locked, and forked children.
class OwnDescriptorsTest : public testing::Test {
 protected:
  OwnDescriptorsTest() : locked_(open("lock")) { EXPECT_TRUE(*locked_->try_lock()); }

  File open(const std::string& name) {
    return std::move(File::open(directory_ / name, File::Access::kCreate, DirectMode::kBuffered))
        .value();
  }
  bool is_free() { return *open("lock").try_lock(); }

  /// The status with which the child ends.
  static int in_child(const std::function<int()>& work) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      std::_Exit(work());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
  }

  TempDirectory directory_;
  std::optional<File> locked_;
};

TEST_F(OwnDescriptorsTest, AChildKeepsNoLockThatItsParentHasGivenUp) {
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const ::pid_t child = ::fork();
  if (child == 0) {
    (void)!::write(ready[1], "!", 1);
    ::pause();
  }
  char sign = 0;
  ASSERT_EQ(::read(ready[0], &sign, 1), 1) << "fork() may return before the child has begun";
  locked_.reset();
  EXPECT_TRUE(is_free());
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(::close(ready[0]), 0);
  EXPECT_EQ(::close(ready[1]), 0);
}

TEST_F(OwnDescriptorsTest, WhatAChildDoesLeavesTheParentsLock) {
  EXPECT_EQ(in_child([this] {
              const bool unlocked = locked_->unlock().has_value();
              locked_.reset();
              return unlocked ? 1 : 7;
            }),
            7);
  EXPECT_FALSE(is_free());
}

TEST_F(OwnDescriptorsTest, AChildsCopyOfTheFileClosesNoOther) {
  EXPECT_EQ(in_child([this] {
              const File other = open("other");
              const bool apart = other.fd() != locked_->fd();
              locked_.reset();
              return apart && other.size_bytes().has_value() ? 7 : 1;
            }),
            7);
}

TEST_F(OwnDescriptorsTest, AChildKeepsWhatHoldsNoLock) {
  EXPECT_TRUE(locked_->unlock());
  EXPECT_EQ(in_child([this] { return locked_->truncate(1).has_value() ? 7 : 1; }), 7);
}

TEST_F(OwnDescriptorsTest, AChildKeepsNoScratchFile) {
  Result<File> file = File::create_scratch(directory_.path());
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->reserve(0, 4096));
  EXPECT_EQ(in_child([&file] {
              const bool given_up = file->truncate(0).has_error();
              const File end = std::move(*file);
              return given_up ? 7 : 1;
            }),
            7);
  EXPECT_EQ(*file->size_bytes(), 4096U);
}

TEST_F(OwnDescriptorsTest, AChildKeepsNoRing) {
  Result<std::unique_ptr<IoEngine>> engine = make_uring_engine({});
  if (!engine) {
    GTEST_SKIP() << engine.error().message;
  }
  EXPECT_TRUE(has_ring());
  EXPECT_EQ(in_child([&engine] {
              const bool kept = has_ring();
              engine->reset();
              return kept ? 1 : 7;
            }),
            7);
  engine->reset();
  EXPECT_FALSE(has_ring());
}

TEST_F(OwnDescriptorsTest, NoForkComesWhileOneIsClosed) {
  std::latch closing(1);
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    OwnDescriptors::of_process().close(locked_->fd(), [&] {
      closing.count_down();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      closed = true;  // locked_ itself closes it, later
    });
  });
  closing.wait();
  EXPECT_EQ(in_child([&closed] { return closed ? 7 : 1; }), 7);
  closer.join();
}

}  // namespace
}  // namespace penstock
