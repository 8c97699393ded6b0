#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "swap/plan/path_config.h"

namespace penstock {

struct DurableStoreOptions {
  enum class Access : std::uint8_t {
    kRead,
    kWrite,  ///< makes the store where there is none
  };
  std::string directory;
  Access access = Access::kWrite;
  /// The drives to write to, each with its weight; the directory itself is one only if it is named.
  /// One with `max_bytes` 0 is read and takes nothing new. Empty: all that is named, for a new
  /// store its directory.
  std::vector<PathConfig> paths;
  FileSystem* system = &os_file_system();  ///< outlives the store
  /// More directories that the manifest may name. A manifest may come from elsewhere, so contents
  /// outside the store's own directory are opened only where the caller names their directory.
  std::vector<std::string> trusted = {};
};

}  // namespace penstock
