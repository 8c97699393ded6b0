#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "alloc/result.h"

namespace penstock {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// What sectors, pages and direct I/O of nearly all drives divide. Where direct I/O takes larger
/// blocks only, files are buffered.
inline constexpr std::uint64_t kBlockBytes = 4 * kKiB;
/// Bytes of a transparent huge page on x86-64 and on arm64 with 4 KiB pages.
inline constexpr std::uint64_t kHugePageBytes = 2 * kMiB;

/// `alignment` is a power of two.
constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) {
  return value & ~(alignment - 1);
}
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return align_down(value + alignment - 1, alignment);
}
constexpr bool is_aligned(std::uint64_t value, std::uint64_t alignment) {
  return (value & (alignment - 1)) == 0;
}
inline bool is_aligned(const void* address, std::uint64_t alignment) {
  return is_aligned(reinterpret_cast<std::uintptr_t>(address), alignment);
}

/// Reads a size as users write it: `4194304`, `4k`, `64MiB`, `1g` (units of 1024, as fio has them),
/// `64MB`, `1GB` (units of 1000), `1.6e8`. Letters are case-insensitive.
/// Errors: Fault::kConfiguration for anything else, for negative and for fractional byte counts.
Result<std::uint64_t> parse_bytes(std::string_view text);

/// Writes a size for people in units of 1024 with the unit named: `64.0 MiB`, `311 B`.
std::string format_bytes(std::uint64_t bytes);

}  // namespace penstock
