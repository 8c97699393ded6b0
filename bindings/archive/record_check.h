#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/archive/zip_directory.h"
#include "io/file_system.h"
#include "io/io_queue.h"

namespace penstock {

/// What is wrong with a record whose bytes are not what was written.
struct DamagedRecord {
  ZipRecord record;
  std::string reason;          ///< "its CRC-32 is 1234abcd instead of …", or why it cannot be read
  bool is_unreadable = false;  ///< rather than read, with another CRC-32
};

/// Reads every byte of `records` of the archive at `path`, through 16 MiB of memory, and compares
/// CRC-32s. Gives what is damaged, in the order of `records`. `on_progress` (may be empty) is
/// called with the bytes read so far. Errors: errno with the path where the file cannot be opened;
/// no memory.
Result<std::vector<DamagedRecord>> check_zip_records(
    FileSystem& system, IoQueue& queue, const std::string& path,
    const std::vector<ZipRecord>& records, const std::function<void(std::uint64_t)>& on_progress);

}  // namespace penstock
