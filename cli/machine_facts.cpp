#include "cli/machine_facts.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "alloc/memlock_limit.h"
#include "cli/gpu_listing.h"
#include "swap/plan/budgets.h"

namespace penstock::cli {
namespace {

// A missing directory is made when training starts: then its nearest parent decides.
std::string nearest_existing(const std::string& path) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(path, error);
  while (at.has_relative_path() && !std::filesystem::exists(at, error)) {
    at = at.parent_path();
  }
  return at.string();
}

PathFacts look_at(const std::string& path) {
  PathFacts facts;
  facts.path = path;
  struct stat entry{};
  facts.exists = ::stat(path.c_str(), &entry) == 0;
  if (!facts.exists && errno != ENOENT) {
    facts.problem = std::strerror(errno);
    return facts;
  }
  const std::string there = facts.exists ? path : nearest_existing(path);
  const bool is_found = ::stat(there.c_str(), &entry) == 0;
  if (is_found) {
    facts.drive = entry.st_dev;
  }
  if (is_found && !S_ISDIR(entry.st_mode)) {
    facts.problem = fmt::format("{} is not a directory", there);
  } else if (::access(there.c_str(), W_OK | X_OK) != 0) {
    facts.problem = fmt::format("{}: {}", there, std::strerror(errno));
  }
  if (struct statvfs space{}; ::statvfs(there.c_str(), &space) == 0) {
    facts.free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  }
  return facts;
}

// As DeepSpeed chooses: DS_ACCELERATOR, else what is there.
bool has_accelerator() {
  const char* const named = std::getenv("DS_ACCELERATOR");
  return named != nullptr ? std::string_view(named) != "cpu"
                          : std::ranges::any_of(list_gpus(), &Gpu::usable);
}

// As penstock/deepspeed/delivery.py chooses it.
bool stages_for_device(bool has_accelerator) {
  if (const char* const named = std::getenv("PENSTOCK_DEVICE"); named != nullptr) {
    return *named != '\0';
  }
  const char* const accelerator = std::getenv("DS_ACCELERATOR");
  return has_accelerator && (accelerator == nullptr || std::string_view(accelerator) == "cuda");
}

}  // namespace

MachineFacts read_machine_facts(const std::vector<PathConfig>& paths) {
  MachineFacts facts;
  facts.mem_available_bytes = read_mem_available_bytes();
  facts.memlock_bytes = memlock_limit_bytes();
  facts.has_accelerator = has_accelerator();
  facts.stages_for_device = stages_for_device(facts.has_accelerator);
  for (const PathConfig& path : paths) {
    facts.paths.push_back(look_at(path.path));
  }
  return facts;
}

}  // namespace penstock::cli
