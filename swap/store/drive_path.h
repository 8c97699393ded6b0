#pragma once

#include <string>

namespace penstock {

/// Comparable, and the same from whatever directory it is used. Links stay, but for those before
/// "..".
std::string absolute_path(const std::string& path);

/// Two absolute_path()s of one directory. What is not there yet is compared by name only.
bool is_same_directory(const std::string& one, const std::string& other);

}  // namespace penstock
