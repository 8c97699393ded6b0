#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace penstock::cli {

/// Prints to stderr. A stderr that takes nothing (a full disk) is no reason to end otherwise than
/// the verb does, so failures are passed over.
template <class... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace penstock::cli
