#include "alloc/memlock_limit.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

namespace penstock {
namespace {

// The capability that lifts RLIMIT_MEMLOCK, among the effective ones of /proc/self/status.
bool may_lock_without_limit() {
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
