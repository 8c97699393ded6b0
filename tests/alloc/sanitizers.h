#pragma once

#include <cstdint>

// GCC says what it watches by macros, Clang by features.
#ifdef __has_feature
#define PENSTOCK_HAS_FEATURE(feature) __has_feature(feature)
#else
#define PENSTOCK_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || PENSTOCK_HAS_FEATURE(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif

namespace penstock {

#if defined(__SANITIZE_ADDRESS__) || PENSTOCK_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__) || PENSTOCK_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

/// What `make` makes is no leak, wherever it is lost.
template <class Make>
auto without_leak_checks(Make make) {
#if defined(__SANITIZE_ADDRESS__) || PENSTOCK_HAS_FEATURE(address_sanitizer)
  const __lsan::ScopedDisabler disabled;
#endif
  return make();
}

/// Sanitizers are some ten times slower and keep memory back: long tests do a part of their work,
/// and do not look at how much memory there is.
inline constexpr bool kSanitized = kAddressSanitized || kThreadSanitized;

/// How much of a long test's work this build does.
constexpr std::uint64_t work(std::uint64_t count) {
  return kSanitized ? count / 10 : count;
}

}  // namespace penstock
