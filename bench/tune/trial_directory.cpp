#include "bench/tune/trial_directory.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace penstock::bench {

Result<TrialDirectory> TrialDirectory::make(const std::string& parent) {
  std::string path = parent + "/penstock-tune-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return system_error(
        errno, fmt::format("cannot measure {}: no directory can be made in it", parent), parent);
  }
  return TrialDirectory(std::move(path));
}

TrialDirectory::TrialDirectory(TrialDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TrialDirectory::~TrialDirectory() {
  if (!path_.empty()) {
    std::error_code ignored;  // the user's directory may be gone, and nobody is left to be told
    std::filesystem::remove_all(path_, ignored);
  }
}

}  // namespace penstock::bench
