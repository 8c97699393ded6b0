#include "bench/workload/scratch_directory.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace penstock::bench {

Result<ScratchDirectory> ScratchDirectory::make(const std::string& parent, const char* name) {
  std::error_code error;
  std::string path =
      fmt::format("{}/{}-XXXXXX",
                  std::filesystem::absolute(parent.empty() ? "." : parent, error).string(), name);
  if (error || ::mkdtemp(path.data()) == nullptr) {
    return system_error(error ? error.value() : errno,
                        fmt::format("no directory can be made in {}", parent), parent);
  }
  return ScratchDirectory(std::move(path));
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

ScratchDirectory::~ScratchDirectory() {
  if (!path_.empty()) {
    std::error_code ignored;  // the user's directory may be gone
    std::filesystem::remove_all(path_, ignored);
  }
}

}  // namespace penstock::bench
