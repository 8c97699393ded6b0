#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace penstock {

/// A system call that fails from now on, as in a container or on a file system that lacks it.
struct SyscallFault {
  std::uint32_t number = 0;
  int error = 0;
  /// Fails only where all bits of `mask` are set in argument `argument`; a mask of 0 always fails.
  std::uint32_t argument = 0;
  std::uint32_t mask = 0;
};

/// For all threads that there are. Cannot be taken back: only for child processes, which death
/// tests are.
inline void inject(const SyscallFault& fault) {
  const auto argument_offset = static_cast<std::uint32_t>(
      offsetof(seccomp_data, args) + fault.argument * sizeof(std::uint64_t));  // little endian
  std::array program = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, fault.number, 0, 4),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument_offset),
      sock_filter BPF_STMT(BPF_ALU | BPF_AND | BPF_K, fault.mask),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, fault.mask, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K,
                           SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(fault.error)),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    std::perror("seccomp");
    std::_Exit(99);
  }
}

}  // namespace penstock
