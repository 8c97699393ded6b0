#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/archive/source_file.h"
#include "bindings/archive/zip_directory.h"
#include "io/file_system.h"
#include "io/io_queue.h"
#include "swap/transfer/stream_reader.h"

namespace penstock {

/// Reads whole records of a ZIP archive one after the other in parts, through 16 MiB of memory, and
/// compares each one's CRC-32 when its last part has come. Used by one thread.
class RecordReader {
 public:
  /// Errors: errno with the path; no memory.
  static Result<RecordReader> open(FileSystem& system, IoQueue& queue, const std::string& path,
                                   std::vector<ZipRecord> records);

  struct Part {
    std::size_t record = 0;    ///< which of those asked for
    std::uint64_t offset = 0;  ///< within the record; parts come without gaps
    /// Valid until the next call of next(). Empty where it could not be read.
    std::span<const std::byte> bytes;
    bool last = false;
    std::uint32_t crc = 0;  ///< of the record's bytes up to here
    /// With the last part: what is wrong with the record, with path and name. Fault::kCorrupt, or
    /// the drive's errno.
    std::optional<Error> problem;
  };
  /// The next part; nothing after the last. A record of 0 bytes has one part of 0 bytes.
  std::optional<Part> next();

 private:
  RecordReader() = default;

  std::string path_;
  std::vector<ZipRecord> records_;
  std::unique_ptr<SourceFile> file_;  // stays where it is when this moves
  std::uint32_t crc_ = 0;
  std::optional<Error> problem_;  // the record's first
  std::unique_ptr<StreamReader> reader_;
};

}  // namespace penstock
