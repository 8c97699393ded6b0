#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "io/file.h"

namespace penstock {

/// One record of a ZIP archive.
struct ZipRecord {
  /// As torch calls it: behind the first '/', without the directory that torch.save puts around all
  /// records of an archive (`data.pkl`, `data/0`).
  std::string name;
  std::uint64_t offset = 0;  ///< of its first byte, in the file
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;               ///< CRC-32 of its bytes, as the central directory says
  std::uint64_t directory_offset = 0;  ///< of its entry there
  std::uint64_t header_offset = 0;     ///< of its local header
  bool has_descriptor = false;         ///< behind its bytes there are CRC and sizes once more
  bool has_crc = true;                 ///< false where the archive was written without any (all 0)
};

/// What a ZIP archive says of its records, all of which are stored, none compressed: the format of
/// torch.save. Source of the layout: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.
struct ZipDirectory {
  std::vector<ZipRecord> records;  ///< as they lie in the file
  std::uint64_t file_bytes = 0;

  /// Null where there is none of that name.
  const ZipRecord* find(std::string_view name) const;
};

/// Reads the central directory and the local headers, in memory of the directory's size. Each
/// record lies within the file and outside the directory, and no two overlap; all are in one
/// folder, and each has the same name in both places. `file` is open buffered. Errors: errno with
/// the path; Fault::kInvalidArgument, with what is wrong: no ZIP archive, cut short, compressed or
/// encrypted records, two of one name.
Result<ZipDirectory> read_zip_directory(const File& file);

/// Writes a record's CRC-32 wherever the archive keeps it. `file` is open buffered, to write.
/// Errors: errno with the path.
Result<void> write_zip_crc(const File& file, const ZipRecord& record, std::uint32_t crc);

}  // namespace penstock
