#pragma once

#include <string>

#include "io/file.h"

namespace penstock {

/// Switches O_DIRECT on for an open descriptor of the machine, where `mode` and the file system
/// allow it, and says which alignment that takes; `path` is for the reason where they do not.
DirectIo probe_direct_io(int fd, const std::string& path, DirectMode mode);

}  // namespace penstock
