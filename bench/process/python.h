#pragma once

#include <string>
#include <vector>

namespace penstock::bench {

/// Where Python may be, best first: beside the command (a virtual environment that penstock was
/// installed into), what the PATH says, and the distribution's. Only those beside the command are
/// known to exist.
std::vector<std::string> pythons();

}  // namespace penstock::bench
