#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace penstock {

/// For tests of what holds for a whole process (limits, users, signals): they
/// run in a child that gtest starts anew, with no thread in it. `body` returns
/// what happened, which must be `expected`.
///
/// A check that fails in the child shows in its output, and `expected` is not
/// what is said.
#define PENSTOCK_EXPECT_IN_CHILD(body, expected)                            \
  do {                                                                      \
    GTEST_FLAG_SET(death_test_style, "threadsafe");                         \
    EXPECT_EXIT(::penstock::say_and_exit(body), testing::ExitedWithCode(0), \
                testing::HasSubstr(std::string("[") + (expected) + "]"));   \
  } while (false)

[[noreturn]] inline void say_and_exit(const std::string& what) {
  std::fprintf(stderr, "[%s]\n", what.c_str());
  std::fflush(stderr);
  std::fflush(stdout);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

/// For this process and all it starts. The hard limit stays, so that it can be
/// taken back.
inline void limit(__rlimit_resource_t resource, rlim_t most) {
  rlimit both{};
  ASSERT_EQ(::getrlimit(resource, &both), 0);
  both.rlim_cur = most;
  ASSERT_EQ(::setrlimit(resource, &both), 0);
}

constexpr ::uid_t kOrdinaryUser = 65534;

/// This process is an ordinary user's from now on. Empty, or why it cannot be
/// that of `directory`.
inline std::string become_ordinary_user(const std::string& directory) {
  if (::geteuid() != 0) {
    return "";  // it is already
  }
  if (::chown(directory.c_str(), kOrdinaryUser, kOrdinaryUser) != 0 ||
      ::setgid(kOrdinaryUser) != 0 || ::setuid(kOrdinaryUser) != 0) {
    return "cannot become another user";
  }
  return ::access(directory.c_str(), W_OK | X_OK) == 0 ? "" : "out of an ordinary user's reach";
}

}  // namespace penstock
