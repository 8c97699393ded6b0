#pragma once

#include <cstdint>

#include "alloc/buffer_pool.h"
#include "io/io_stats.h"

namespace penstock {

/// What an engine has done and holds. Bytes are of tensors unless said otherwise.
struct SwapStats {
  IoStats io;                            ///< what the kernel moved, identity blocks included
  std::uint64_t tensor_read_bytes = 0;   ///< tensors brought from drives
  std::uint64_t tensor_write_bytes = 0;  ///< tensors written to drives
  std::uint64_t padding_bytes = 0;       ///< written around them: identity and up to whole blocks
  std::uint64_t journal_bytes = 0;       ///< written to manifests of durable stores
  std::uint64_t publishes = 0;           ///< of durable stores
  std::uint64_t gets = 0;
  std::uint64_t resident_hits = 0;      ///< gets served from a resident
  std::uint64_t hits = 0;               ///< gets whose read-ahead had finished, or still in memory
  std::uint64_t late = 0;               ///< gets whose read-ahead was still in flight
  std::uint64_t misses = 0;             ///< gets that began the read themselves
  std::uint64_t predicted = 0;          ///< gets that the trace had foretold
  std::uint64_t ahead_dropped = 0;      ///< read-aheads that were given up unused
  std::uint64_t stall_ns = 0;           ///< time that callers spent waiting for reads
  std::uint64_t to_device_bytes = 0;    ///< tensors brought into devices' memory, as they are there
  std::uint64_t from_device_bytes = 0;  ///< and taken from it
  std::uint64_t staging_bytes = 0;      ///< pinned for that, beside the pool
  std::uint64_t commits = 0;
  std::uint64_t write_failures = 0;
  std::uint64_t resident_bytes = 0;  ///< kept in RAM by plan, now
  std::uint64_t resident_bytes_max = 0;
  std::uint64_t lookahead_bytes = 0;  ///< read ahead and not yet used, now
  std::uint64_t drive_bytes = 0;      ///< extents in use on drives, now
  std::uint64_t drive_bytes_max = 0;
  BufferPoolStats pool;
};

}  // namespace penstock
