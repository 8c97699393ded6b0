#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "alloc/result.h"
#include "bindings/archive/source_file.h"
#include "bindings/archive/zip_directory.h"
#include "io/file_system.h"
#include "io/io_queue.h"
#include "swap/transfer/stream_writer.h"

namespace penstock {

/// Fills records that were reserved in a ZIP archive, with several writes under way behind the
/// caller. Used by one thread.
class RecordWriter {
 public:
  /// Opens the archive and makes room on its drive for all of it, so that no later write can find
  /// the drive full. Errors: as read_zip_directory()'s; ENOSPC with the path.
  static Result<RecordWriter> open(FileSystem& system, IoQueue& queue, const std::string& path);

  const ZipDirectory& directory() const noexcept { return directory_; }

  /// What follows are the bytes of `record`.
  void begin(const ZipRecord& record);
  /// The next of them; copied. Errors: of an earlier write; then for ever.
  Result<void> append(std::span<const std::byte> bytes);
  /// The record's bytes have come. Errors: there were fewer.
  Result<void> end();
  /// Waits, writes CRC-32s, and makes all of the file safe from a crash. Errors: of a write, with
  /// path and offset.
  Result<void> finish();

 private:
  struct Tail {
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes;
  };

  RecordWriter() = default;

  std::unique_ptr<SourceFile> file_;  // stays where it is when this moves
  ZipDirectory directory_;
  const File* streamed_ = nullptr;  // what takes the record's whole blocks
  ZipRecord record_;
  std::uint64_t offset_ = 0;  // within the record
  std::uint32_t crc_ = 0;
  std::vector<Tail>
      tails_;  // last bytes of records, less than a block, which only buffered I/O writes
  std::vector<std::pair<ZipRecord, std::uint32_t>> filled_;  // with their CRC-32s
  std::unique_ptr<StreamWriter> writer_;                     // last: it waits for what is under way
};

}  // namespace penstock
