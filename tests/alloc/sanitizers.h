#pragma once

#include <cstdint>

namespace penstock {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/// Sanitizers are some ten times slower and keep memory back: long tests do a part of their work,
/// and do not look at how much memory there is.
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How much of a long test's work this build does.
constexpr std::uint64_t work(std::uint64_t count) {
  return kSanitized ? count / 10 : count;
}

}  // namespace penstock
