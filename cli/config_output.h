#pragma once

#include <string>

#include "alloc/result.h"

namespace penstock::cli {

// Files that a command writes when its work is done: configurations, reports, pictures.

/// Whether write_config() could write there, before long work is begun for it. Errors: errno and
/// path (no such directory, not ours to write to), or something that is no file.
Result<void> check_output(const std::string& path);

/// Writes `text` to a file that is replaced as a whole or not at all (where it is a symbolic link,
/// the file that this names). Errors: errno and path.
Result<void> write_config(const std::string& path, const std::string& text);

}  // namespace penstock::cli
