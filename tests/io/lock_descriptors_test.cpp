#include "io/lock_descriptors.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <latch>
#include <optional>
#include <string>
#include <thread>

#include "io/file.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

/// A file that this process has locked, and forked children.
class LockDescriptorsTest : public testing::Test {
 protected:
  LockDescriptorsTest() : locked_(open("lock")) { EXPECT_TRUE(*locked_->try_lock()); }

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

TEST_F(LockDescriptorsTest, AChildKeepsNoLockThatItsParentHasGivenUp) {
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

TEST_F(LockDescriptorsTest, WhatAChildDoesLeavesTheParentsLock) {
  EXPECT_EQ(in_child([this] {
              const bool unlocked = locked_->unlock().has_value();
              locked_.reset();
              return unlocked ? 1 : 7;
            }),
            7);
  EXPECT_FALSE(is_free());
}

TEST_F(LockDescriptorsTest, AChildsCopyOfTheFileClosesNoOther) {
  EXPECT_EQ(in_child([this] {
              const File other = open("other");
              const bool apart = other.fd() != locked_->fd();
              locked_.reset();
              return apart && other.size_bytes().has_value() ? 7 : 1;
            }),
            7);
}

TEST_F(LockDescriptorsTest, AChildKeepsWhatHoldsNoLock) {
  EXPECT_TRUE(locked_->unlock());
  EXPECT_EQ(in_child([this] { return locked_->truncate(1).has_value() ? 7 : 1; }), 7);
}

TEST_F(LockDescriptorsTest, NoForkComesWhileOneIsClosed) {
  std::latch closing(1);
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    LockDescriptors::of_process().close(locked_->fd(), [&] {
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
