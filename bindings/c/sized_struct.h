#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "alloc/result.h"
#include "bindings/c/penstock.h"

namespace penstock::c {

/// Bytes of each struct in the first version of the interface: the least that a caller may bring.
/// Frozen; a struct may only grow at its end.
template <class Struct>
inline constexpr std::size_t kFirstBytes = 0;
template <>
inline constexpr std::size_t kFirstBytes<penstock_engine_options> = 64;
template <>
inline constexpr std::size_t kFirstBytes<penstock_tensor_info> = 40;
template <>
inline constexpr std::size_t kFirstBytes<penstock_tensor_state> = 48;
template <>
inline constexpr std::size_t kFirstBytes<penstock_engine_stats> = 224;

/// No struct is larger: a larger `struct_size` was not set.
inline constexpr std::size_t kStructBytesMax = 1024;

/// Errors: NULL; a `struct_size` that cannot be the struct's.
template <class Struct>
Result<std::size_t> size_of_given(const Struct* given, std::string_view name) {
  static_assert(sizeof(Struct) >= kFirstBytes<Struct> && kFirstBytes<Struct> != 0);
  if (given == nullptr) {
    return fault(Fault::kInvalidArgument, fmt::format("a null pointer is given for the {}", name));
  }
  const std::size_t bytes = given->struct_size;
  if (bytes < kFirstBytes<Struct> || bytes > kStructBytesMax) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("struct_size of the {} is {}: set it to sizeof of the struct ({})",
                             name, bytes, sizeof(Struct)));
  }
  return bytes;
}

/// A copy of what the caller gave, whose header may be older (fields at the end are then 0) or
/// newer (then its fields that we do not know must be 0). Errors: as size_of_given();
/// Fault::kUnsupported.
template <class Struct>
Result<Struct> read_struct(const Struct* given, std::string_view name) {
  const Result<std::size_t> bytes = size_of_given(given, name);
  if (bytes.has_error()) {
    return bytes.error();
  }
  Struct ours{};
  std::memcpy(&ours, given, std::min(*bytes, sizeof(Struct)));
  const auto* const raw = reinterpret_cast<const std::byte*>(given);
  if (*bytes > sizeof(Struct) && std::any_of(raw + sizeof(Struct), raw + *bytes,
                                             [](std::byte b) { return b != std::byte{}; })) {
    return fault(
        Fault::kUnsupported,
        fmt::format("the {} have fields that penstock {} does not know", name, penstock_version()));
  }
  return ours;
}

/// Gives the caller as much of `ours` as his header has. Errors: as size_of_given().
template <class Struct>
Result<void> write_struct(Struct ours, Struct* given, std::string_view name) {
  const Result<std::size_t> bytes = size_of_given(given, name);
  if (bytes.has_error()) {
    return bytes.error();
  }
  ours.struct_size = *bytes;
  std::memcpy(given, &ours, std::min(*bytes, sizeof(Struct)));
  return {};
}

}  // namespace penstock::c
