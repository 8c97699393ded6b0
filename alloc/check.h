#pragma once

#include <fmt/format.h>

#include <string>

namespace penstock::detail {

/// Prints one line with place, condition and values to stderr, then aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& values);

}  // namespace penstock::detail

/// Guards an invariant of ours whose breach would otherwise corrupt weights silently. Kept in
/// release builds. Never for what a caller or the world can cause: those are results.
/// `PENSTOCK_CHECK(used <= size, "used {} of {}", used, size)` prints the values before it aborts.
#define PENSTOCK_CHECK(condition, ...)                                 \
  do {                                                                 \
    if (!(condition)) [[unlikely]] {                                   \
      ::penstock::detail::check_failed(__FILE__, __LINE__, #condition, \
                                       ::fmt::format(__VA_ARGS__));    \
    }                                                                  \
  } while (false)
