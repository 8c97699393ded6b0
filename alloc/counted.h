#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// A number and what it counts, for people: `1 tensor`, `197 tensors`, `0 passes`. `noun` is one
/// whose plural has an s or es more.
std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace penstock
