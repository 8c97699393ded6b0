#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "tests/store/durable_fixture.h"

namespace penstock {
namespace {

/// A store that is open where its process forks (a DataLoader's workers do), and the child lives
/// on.
class DurableStoreForkTest : public DurableFixture {
 protected:
  DurableStoreForkTest() : store_(open()) {
    EXPECT_TRUE(put(*store_, "a", content(5000, 1)));
    EXPECT_TRUE(store_->publish());
    std::array<int, 2> begun{};
    EXPECT_EQ(::pipe(begun.data()), 0);
    child_ = ::fork();
    if (child_ == 0) {
      (void)!::write(begun[1], "!", 1);
      ::pause();
    }
    char sign = 0;
    EXPECT_EQ(::read(begun[0], &sign, 1), 1);
    EXPECT_EQ(::close(begun[0]) + ::close(begun[1]), 0);
  }
  ~DurableStoreForkTest() override {
    EXPECT_EQ(::kill(child_, SIGKILL), 0);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
  }

  std::unique_ptr<DurableStore> store_;
  ::pid_t child_ = -1;
};

TEST_F(DurableStoreForkTest, AStoreThatIsClosedCanBeOpenedAgain) {
  ASSERT_TRUE(store_->close());
  store_.reset();
  EXPECT_TRUE(holds(*open(), "a", content(5000, 1)));
}

TEST_F(DurableStoreForkTest, SoCanOneWhoseOwnerDied) {
  store_.reset();  // as the kernel closes what a process had open
  EXPECT_TRUE(holds(*open(), "a", content(5000, 1)));
}

TEST_F(DurableStoreForkTest, TheOwnerKeepsTheStoreMeanwhile) {
  EXPECT_EQ(try_open().error().system_errno(), EBUSY);
}

}  // namespace
}  // namespace penstock
