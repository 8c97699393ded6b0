#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/mount_table.h"
#include "io/file.h"

namespace penstock::cli {

/// What `doctor` finds out about a directory that tensors would be swapped to.
struct PathCheckup {
  std::string path;
  bool usable = false;
  std::string problem;      ///< why not: a whole sentence
  std::string file_system;  ///< ext4, xfs…
  std::string device;       ///< what it is mounted from
  DirectIo direct;
  std::uint64_t free_bytes = 0;  ///< for this user
  std::uint64_t total_bytes = 0;
  std::optional<std::uint64_t> quota_bytes;  ///< this user's limit, where one is set
  std::optional<std::uint64_t> quota_used_bytes;
  bool is_rotating = false;         ///< a disk that turns
  std::vector<std::string> advice;  ///< what to change, each a whole sentence
};

/// Looks, and writes and reads one block in a file without a name. Creates nothing that stays.
PathCheckup check_path(const std::string& path, const std::vector<Mount>& mounts);

}  // namespace penstock::cli
