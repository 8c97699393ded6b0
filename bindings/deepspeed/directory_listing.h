#pragma once

#include <string>
#include <vector>

#include "alloc/result.h"

namespace penstock {

/// Names in a directory, sorted. Errors: errno with the path.
Result<std::vector<std::string>> list_directory(const std::string& directory);

/// Symbolic links are followed.
bool is_directory(const std::string& path);

/// They are not: what goes down from here ends.
bool is_directory_itself(const std::string& path);

}  // namespace penstock
