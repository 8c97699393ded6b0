#include "alloc/memlock_limit.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace penstock {
namespace {

// Of another one the kernel asks no capability, whatever the process may do within.
bool in_initial_user_namespace() {
  constexpr ::ino_t kInitial = 0xEFFFFFFDU;  // of every kernel (USER_NS_INIT_INO)
  struct ::stat info{};
  return ::stat("/proc/self/ns/user", &info) == 0 ? info.st_ino == kInitial : errno == ENOENT;
}

// The capability that lifts RLIMIT_MEMLOCK, among the effective ones of /proc/self/status.
bool may_lock_without_limit() {
  if (!in_initial_user_namespace()) {
    return false;
  }
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    if (std::uint64_t set = 0; key == "CapEff:" && status >> std::hex >> set) {
      return (set >> CAP_IPC_LOCK & 1) != 0;
    }
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> memlock_limit_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      may_lock_without_limit()) {
    return std::nullopt;
  }
  return limit.rlim_cur;
}

}  // namespace penstock
