#include "swap/plan/control_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The files of one version. Of `limit`, "max" and numbers near 2^63 mean none.
struct MemoryFiles {
  const char* top;
  const char* limit;
  const char* use;
  const char* cache;  // the line of memory.stat
};

constexpr MemoryFiles kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                "memory.usage_in_bytes", "total_inactive_file"};
constexpr MemoryFiles kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::uint64_t read_cache_bytes(const fs::path& group, const MemoryFiles& files) {
  std::ifstream statistics(group / "memory.stat");
  std::string key;
  std::uint64_t value = 0;
  while (statistics >> key >> value) {
    if (key == files.cache) {
      return value;
    }
  }
  return 0;
}

std::optional<std::uint64_t> free_bytes_of(const fs::path& group, const MemoryFiles& files) {
  const std::optional<std::uint64_t> limit = read_number(group / files.limit);
  const std::optional<std::uint64_t> use = read_number(group / files.use);
  if (!limit || !use || *limit >= kNoLimit) {
    return std::nullopt;
  }
  const std::uint64_t held = *use - std::min(*use, read_cache_bytes(group, files));
  return *limit - std::min(*limit, held);
}

// `name` as /proc/self/cgroup has it. In a container it may be the host's name of the group, which
// is then the top of what can be seen.
std::optional<std::uint64_t> least_free_bytes(const std::string& name, const MemoryFiles& files) {
  const fs::path top = files.top;
  fs::path group = top / fs::path(name).relative_path();
  std::error_code ignored;
  if (!fs::exists(group, ignored)) {
    group = top;
  }
  std::optional<std::uint64_t> least;
  for (;; group = group.parent_path()) {
    if (const std::optional<std::uint64_t> bytes = free_bytes_of(group, files)) {
      least = std::min(least.value_or(*bytes), *bytes);
    }
    if (group == top || !group.has_relative_path()) {
      return least;
    }
  }
}

bool counts_memory(std::string_view controllers) {
  return fmt::format(",{},", controllers).find(",memory,") != std::string::npos;
}

}  // namespace

std::optional<std::uint64_t> control_group_free_bytes() {
  std::ifstream groups("/proc/self/cgroup");  // lines of number:controllers:name
  std::optional<std::uint64_t> least;
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    const bool unified = line.starts_with("0::");
    if (!unified && !counts_memory(controllers)) {
      continue;
    }
    const std::optional<std::uint64_t> bytes =
        least_free_bytes(line.substr(second + 1), unified ? kVersion2 : kVersion1);
    if (bytes) {
      least = std::min(least.value_or(*bytes), *bytes);
    }
  }
  return least;
}

}  // namespace penstock
