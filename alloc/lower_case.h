#pragma once

#include <string>

namespace penstock {

/// Letters of ASCII in lower case, as names that users write in either are compared. Pure.
std::string lower_case(std::string text);

}  // namespace penstock
