#pragma once

#include <string>
#include <vector>

namespace penstock::bench {

/// Where Python may be, best first: beside the command (a virtual environment that penstock was
/// installed into), what the PATH says, and the distribution's. Those beside that are not there are
/// left out; of the others starting them tells.
std::vector<std::string> pythons();

}  // namespace penstock::bench
