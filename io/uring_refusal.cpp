#include "io/uring_refusal.h"

#include <cerrno>
#include <fstream>
#include <string_view>

namespace penstock {
namespace {

std::string_view reason_of_eperm(std::optional<int> io_uring_disabled) {
  switch (io_uring_disabled.value_or(0)) {
    case 0:
      return "a seccomp filter forbids it, as those of containers do; start the container with a "
             "profile that allows io_uring_setup, io_uring_enter and io_uring_register";
    case 1:
      return "kernel.io_uring_disabled is 1, which leaves io_uring to CAP_SYS_ADMIN and to the "
             "group "
             "kernel.io_uring_group; `sysctl -w kernel.io_uring_disabled=0` allows it to everybody";
    default:
      return "kernel.io_uring_disabled is 2, which switches io_uring off; "
             "`sysctl -w kernel.io_uring_disabled=0` switches it on";
  }
}

std::string_view reason(int errno_value, std::optional<int> io_uring_disabled) {
  switch (errno_value) {
    case EPERM:
      return reason_of_eperm(io_uring_disabled);
    case EACCES:
      return "a security module (SELinux, AppArmor) forbids it; its log names the rule";
    case ENOSYS:
      return "this kernel was built without it or is older than Linux 5.1, or a seccomp filter "
             "says "
             "so; start the container with a profile that allows io_uring_setup";
    case ENOMEM:
      return "the locked-memory limit is too low for its rings, or memory is short; raise "
             "`ulimit -l`";
    case EMFILE:
    case ENFILE:
      return "too many files are open; raise `ulimit -n`";
    case EINVAL:
      return "this kernel knows none of the ways in which it is set up here; Linux 5.6 is needed";
    default:
      return "an error that io_uring_setup(2) does not list";
  }
}

}  // namespace

Error explain_uring_refusal(int errno_value, std::optional<int> io_uring_disabled) {
  std::string what = "cannot use io_uring: ";
  what += reason(errno_value, io_uring_disabled);
  return system_error(errno_value, std::move(what));
}

std::optional<int> read_io_uring_disabled() {
  std::ifstream sysctl("/proc/sys/kernel/io_uring_disabled");
  int value = 0;
  return sysctl >> value ? std::optional(value) : std::nullopt;
}

}  // namespace penstock
