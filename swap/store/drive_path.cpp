#include "swap/store/drive_path.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace penstock {

std::string absolute_path(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path full = std::filesystem::absolute(path, ignored);
  if (std::ranges::find(full, "..") != full.end()) {
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(full, ignored);
    full = resolved.empty() ? full : resolved;
  }
  full = full.lexically_normal();
  if (!full.has_filename() && full.has_relative_path()) {
    full = full.parent_path();
  }
  return full.string();
}

bool is_same_directory(const std::string& one, const std::string& other) {
  std::error_code ignored;  // what is not there is nothing else
  return one == other || std::filesystem::equivalent(one, other, ignored);
}

}  // namespace penstock
