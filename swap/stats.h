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
  std::uint64_t predicted = 0;          ///< gets that the trace had predicted
  std::uint64_t ahead_dropped = 0;      ///< read-aheads that were given up unused
  std::uint64_t stall_ns = 0;           ///< time that callers waited for reads, and for memory
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
  /// Pageable buffers that callers got since the first plan because no pinned one was left.
  std::uint64_t overflow_buffers = 0;
  std::uint64_t overflow_ns = 0;     ///< time that callers spent on getting them, pages included
  std::uint64_t held_bytes_max = 0;  ///< most bytes of buffers, of both kinds, held at once
  std::uint64_t held_overflow_bytes_max = 0;  ///< most in pageable ones
  /// The max_pinned_bytes (in whole MiB) whose plan has enough pinned buffers of each size for the
  /// largest number held at once; 0 where no buffer was pageable, or no value is enough. Computed
  /// by planning, as of the last overflow_advice(), close_namespace() or close().
  std::uint64_t pinned_bytes_needed = 0;
  BufferPoolStats pool;
};

}  // namespace penstock
