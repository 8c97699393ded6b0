#include "bench/process/python.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace penstock::bench {

std::vector<std::string> pythons() {
  std::vector<std::string> all;
  std::error_code error;
  const std::filesystem::path ours = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = ours.parent_path() / "python";
  if (!error && ::access(beside.c_str(), X_OK) == 0) {
    all.push_back(beside.string());
  }
  all.emplace_back("python3");
  all.emplace_back("/usr/bin/python3");
  return all;
}

}  // namespace penstock::bench
