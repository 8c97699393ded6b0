#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/check.h"
#include "tests/alloc/allocation_counter.h"
#include "tests/alloc/pool_fixture.h"
#include "tests/alloc/sanitizers.h"

namespace penstock {
namespace {

constexpr int kNoFilter = 77;  // exit status

class BufferPoolSteadyState : public PoolFixture {
 protected:
  void SetUp() override { shape({{kMiB, 2}, {64 * kKiB, 8}}); }

  // What a scheduler does when everything goes well: take, promise, take the promise back, return.
  void lease() {
    const std::optional<Buffer> large = pool_->try_acquire(kMiB);
    std::optional<Buffer> small = pool_->try_acquire_slot(60 * kKiB);
    small->expect_return();
    small->expect_no_return();
    small.reset();
    const Result<Buffer> again = pool_->acquire(64 * kKiB);
    PENSTOCK_CHECK(large && again, "no slot: {}, {}", large.has_value(), again.has_value());
  }

  // How a child ends whose every system call but read, write and exit is punished by SIGKILL.
  template <class Function>
  static int status_without_system_calls(Function function) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        ::_exit(kNoFilter);
      }
      function();
      ::syscall(SYS_exit, 0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
};

TEST_F(BufferPoolSteadyState, AllocatesNothing) {
  const std::uint64_t before = allocations_of_this_thread();
  for (int round = 0; round < 1000; ++round) {
    lease();
  }
  EXPECT_EQ(allocations_of_this_thread(), before);
}

TEST_F(BufferPoolSteadyState, MakesNoSystemCall) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers make system calls of their own";
  }
  const int punished = status_without_system_calls([] { (void)::syscall(SYS_getppid); });
  if (WIFEXITED(punished) && WEXITSTATUS(punished) == kNoFilter) {
    GTEST_SKIP() << "this process may not filter system calls";
  }
  ASSERT_TRUE(WIFSIGNALED(punished)) << "a system call would not be seen";
  lease();  // the dynamic linker has its own to make
  const int status = status_without_system_calls([this] {
    for (int round = 0; round < 1000; ++round) {
      lease();
    }
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}

}  // namespace
}  // namespace penstock
