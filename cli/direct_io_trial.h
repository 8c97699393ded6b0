#pragma once

#include <string>

#include "alloc/result.h"
#include "io/file.h"

namespace penstock::cli {

/// Writes one block into a scratch file, reads it back and compares: what statx promises is not
/// always what a file system does. The file has no name when this returns. Errors: the step that
/// failed with its errno; Fault::kCorrupt where other bytes came back.
Result<void> try_direct_io(const File& file);

}  // namespace penstock::cli
