#pragma once

#include <cstdint>
#include <string>

#include "alloc/result.h"
#include "io/file_system.h"
#include "swap/transfer/stream_reader.h"

namespace penstock {

/// A file that is streamed, open twice: only buffered I/O moves the last bytes of a file that
/// is no whole number of blocks.
struct SourceFile {
  File direct;
  File buffered;
  std::uint64_t bytes = 0;

  /// Errors: errno with the path.
  static Result<SourceFile> open(FileSystem& system, const std::string& path,
                                 File::Access access = File::Access::kRead);

  /// [offset, offset + bytes) of it; valid as long as this object stays where it is.
  Stretch stretch(std::uint64_t offset, std::uint64_t of_bytes) const noexcept {
    return {&direct, &buffered, offset, of_bytes, bytes};
  }
};

}  // namespace penstock
