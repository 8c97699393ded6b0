#include "io/uring_refusal.h"

#include <gmock/gmock.h>

#include <cerrno>

namespace penstock {
namespace {

using testing::HasSubstr;

struct ExpectedRemedy {
  int error;
  std::optional<int> disabled;
  const char* remedy;
};

std::ostream& operator<<(std::ostream& out, const ExpectedRemedy& refusal) {
  return out << "errno " << refusal.error << ", io_uring_disabled "
             << refusal.disabled.value_or(-1);
}

class UringRefusal : public testing::TestWithParam<ExpectedRemedy> {};

TEST_P(UringRefusal, NamesItsRemedyAndKeepsTheErrno) {
  const Error error = explain_uring_refusal(GetParam().error, GetParam().disabled);
  EXPECT_THAT(error.message, HasSubstr("io_uring"));
  EXPECT_THAT(error.message, HasSubstr(GetParam().remedy));
  EXPECT_EQ(error.system_errno(), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Errnos, UringRefusal,
    testing::Values(ExpectedRemedy{EPERM, std::nullopt, "seccomp"},
                    ExpectedRemedy{EPERM, 0, "seccomp"},
                    ExpectedRemedy{EPERM, 1, "kernel.io_uring_group"},
                    ExpectedRemedy{EPERM, 2, "sysctl -w kernel.io_uring_disabled=0"},
                    ExpectedRemedy{EACCES, 0, "security module"}, ExpectedRemedy{ENOSYS, 0, "5.1"},
                    ExpectedRemedy{ENOMEM, 0, "ulimit -l"}, ExpectedRemedy{EMFILE, 0, "ulimit -n"},
                    ExpectedRemedy{ENFILE, 0, "ulimit -n"}, ExpectedRemedy{EINVAL, 0, "5.6"},
                    ExpectedRemedy{EIO, 0, "io_uring_setup(2)"}));

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
