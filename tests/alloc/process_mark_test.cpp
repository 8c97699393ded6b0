#include "alloc/process_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock {
namespace {

TEST(ProcessMark, KnowsItsProcessFromAForkedChild) {
  const ProcessMark mark;
  EXPECT_FALSE(mark.elsewhere());
  const ::pid_t child = ::fork();
  if (child == 0) {
    const ProcessMark own;
    const bool right = mark.elsewhere() && !own.elsewhere();
    std::_Exit(right ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(mark.elsewhere()) << "the parent stays what it is";
}

}  // namespace
}  // namespace penstock
