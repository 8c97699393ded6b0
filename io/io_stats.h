#pragma once

#include <cstdint>

namespace penstock {

/// What an engine has done since it was made. Bytes are those that the kernel reported as moved.
struct IoStats {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t read_ops = 0;  ///< completed operations, good and bad
  std::uint64_t write_ops = 0;
  std::uint64_t requests = 0;  ///< pieces given to the kernel
  std::uint64_t short_transfers = 0;
  std::uint64_t retries = 0;  ///< EINTR, EAGAIN
  std::uint64_t errors = 0;   ///< operations that ended with an errno
  std::uint64_t busy_ns = 0;  ///< time in which the kernel had at least one request
};

}  // namespace penstock
