#include "alloc/memlock_limit.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace penstock {
namespace {

constexpr int kRight = 7;
constexpr int kCannotTry = 8;

// In a child, since neither can be taken back. It has all capabilities in its namespace.
int limit_within_a_user_namespace(std::uint64_t bytes) {
  const rlimit limit{bytes, bytes};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || ::unshare(CLONE_NEWUSER) != 0) {
    return kCannotTry;
  }
  return memlock_limit_bytes() == bytes ? kRight : 1;
}

TEST(MemlockLimit, ACapabilityWithinAUserNamespaceLiftsNothing) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    std::_Exit(limit_within_a_user_namespace(65536));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannotTry) {
    GTEST_SKIP() << "this process may make no user namespace";
  }
  EXPECT_EQ(WEXITSTATUS(status), kRight);
}

}  // namespace
}  // namespace penstock
