#include "io/uring_refusal.h"

#include <gmock/gmock.h>

#include <cerrno>

namespace penstock {
namespace {

using testing::HasSubstr;

struct Refusal {
  int error;
  std::optional<int> disabled;
  const char* remedy;
};

std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
  return out << "errno " << refusal.error << ", io_uring_disabled "
             << refusal.disabled.value_or(-1);
}

class UringRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(UringRefusal, NamesItsRemedyAndKeepsTheErrno) {
  const Error error = explain_uring_refusal(GetParam().error, GetParam().disabled);
  EXPECT_THAT(error.message, HasSubstr("io_uring"));
  EXPECT_THAT(error.message, HasSubstr(GetParam().remedy));
  EXPECT_EQ(error.system_errno(), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(Errnos, UringRefusal,
                         testing::Values(Refusal{EPERM, std::nullopt, "seccomp"},
                                         Refusal{EPERM, 0, "seccomp"},
                                         Refusal{EPERM, 1, "kernel.io_uring_group"},
                                         Refusal{EPERM, 2, "sysctl -w kernel.io_uring_disabled=0"},
                                         Refusal{EACCES, 0, "security module"},
                                         Refusal{ENOSYS, 0, "5.1"}, Refusal{ENOMEM, 0, "ulimit -l"},
                                         Refusal{EMFILE, 0, "ulimit -n"},
                                         Refusal{ENFILE, 0, "ulimit -n"}, Refusal{EINVAL, 0, "5.6"},
                                         Refusal{EIO, 0, "io_uring_setup(2)"}));

TEST(IoUringDisabled, IsOneOfTheKernelsValues) {
  const std::optional<int> disabled = read_io_uring_disabled();
  if (!disabled) {
    GTEST_SKIP() << "this kernel has no such sysctl";
  }
  EXPECT_GE(*disabled, 0);
  EXPECT_LE(*disabled, 2);
}

}  // namespace
}  // namespace penstock
