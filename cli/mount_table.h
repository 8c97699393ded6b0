#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

/// A mounted file system, as /proc/self/mountinfo lists it.
struct Mount {
  std::string mount_point;
  std::string file_system;  ///< ext4, xfs, overlay, tmpfs, nfs4…
  std::string source;       ///< a device, a server, or a word such as "overlay"
};

/// Parses the text of mountinfo; lines that do not look like it are left out.
std::vector<Mount> parse_mounts(std::string_view mountinfo);
std::vector<Mount> read_mounts();

/// The mount that `path` (absolute, without links and dots) lies on; nullptr where none is known.
/// Of several on one point the last, which hides the others.
const Mount* mount_of(const std::vector<Mount>& mounts, std::string_view path);

}  // namespace penstock::cli
