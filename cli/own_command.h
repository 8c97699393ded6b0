#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

/// The command line of this process, so that it can be pasted into a shell; empty where /proc is
/// not there.
std::string own_command();

/// Words as a shell takes them, in quotes where they need some.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace penstock::cli
