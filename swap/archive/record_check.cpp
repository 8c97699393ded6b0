#include "swap/archive/record_check.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "swap/archive/crc32.h"
#include "swap/store/source_file.h"
#include "swap/store/stream_reader.h"

namespace penstock {

std::string describe_wrong_crc(std::uint32_t found, std::uint32_t expected) {
  return fmt::format("its CRC-32 is {:08x} instead of {:08x}", found, expected);
}

Result<std::vector<DamagedRecord>> check_zip_records(
    FileSystem& system, IoQueue& queue, const std::string& path,
    const std::vector<ZipRecord>& records, const std::function<void(std::uint64_t)>& on_progress) {
  const Result<SourceFile> source = SourceFile::open(system, path);
  PENSTOCK_TRY(source);
  std::vector<Stretch> stretches;
  for (const ZipRecord& record : records) {
    stretches.push_back(source->stretch(record.offset, record.bytes));
  }
  const Result<std::unique_ptr<StreamReader>> reader =
      StreamReader::make(queue, std::move(stretches));
  PENSTOCK_TRY(reader);
  std::vector<DamagedRecord> damaged;
  std::uint64_t done_bytes = 0;
  std::uint32_t crc = 0;
  std::optional<std::string> unreadable;
  while (const std::optional<StreamReader::Part> part = (*reader)->next()) {
    if (part->problem && !unreadable) {
      unreadable = part->problem->message;
    }
    crc = crc32(part->offset == 0 ? 0 : crc, part->bytes);
    done_bytes += part->bytes.size();
    if (on_progress) {
      on_progress(done_bytes);
    }
    if (!part->last) {
      continue;
    }
    const ZipRecord& record = records[part->stretch];
    if (unreadable) {
      damaged.push_back({record, std::move(*unreadable)});
    } else if (crc != record.crc) {
      damaged.push_back({record, describe_wrong_crc(crc, record.crc)});
    }
    unreadable.reset();
  }
  return damaged;
}

}  // namespace penstock
