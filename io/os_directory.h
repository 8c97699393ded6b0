#pragma once

#include <memory>
#include <string>

#include "io/file_system.h"

namespace penstock {

/// A directory of the machine; the files in it are those of `system`, which outlives it.
Result<std::unique_ptr<Directory>> open_os_directory(FileSystem& system, const std::string& path);

}  // namespace penstock
