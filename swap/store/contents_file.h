#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "alloc/result.h"
#include "io/file_system.h"

namespace penstock {

/// One drive's file of contents of a durable store, open.
struct ContentsFile {
  File file;
  bool is_read_only = false;
};

/// To be written, and locked; to be read only where it may not be written, as on a file system that
/// is mounted read-only. `contents_end`: where the last content ends. 0: the file holds nothing and
/// is made where it is missing. Errors: errno and path; EBUSY; Fault::kCorrupt where it is shorter.
Result<ContentsFile> open_contents(Directory& place, const std::string& name,
                                   std::uint64_t contents_end);
/// To be read, without a lock.
Result<ContentsFile> read_contents(Directory& place, const std::string& name);

/// Its path, where it is there and is not empty.
std::optional<std::string> find_contents(Directory& place, const std::string& name);

/// Whether data_file_name() gives such names.
bool is_contents_file(const std::string& name);

}  // namespace penstock
