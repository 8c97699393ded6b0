#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

/// A directory to swap to.
struct PathConfig {
  std::string path;
  std::optional<double> weight;  ///< nothing: auto
  std::optional<std::uint64_t> max_bytes;
  /// What was measured (`penstock tune` writes it); nothing: not known. For `plan` only.
  std::optional<std::uint64_t> read_bytes_per_second = {};
  std::optional<std::uint64_t> write_bytes_per_second = {};
};

}  // namespace penstock
