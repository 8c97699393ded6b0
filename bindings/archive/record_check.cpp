#include "bindings/archive/record_check.h"

#include <optional>
#include <utility>

#include "bindings/archive/crc32.h"
#include "bindings/archive/record_reader.h"

namespace penstock {

Result<std::vector<DamagedRecord>> check_zip_records(
    FileSystem& system, IoQueue& queue, const std::string& path,
    const std::vector<ZipRecord>& records, const std::function<void(std::uint64_t)>& on_progress) {
  Result<RecordReader> reader = RecordReader::open(system, queue, path, records);
  PENSTOCK_TRY(reader);
  std::vector<DamagedRecord> damaged;
  std::uint64_t done_bytes = 0;
  while (std::optional<RecordReader::Part> part = reader->next()) {
    done_bytes += part->bytes.size();
    if (on_progress) {
      on_progress(done_bytes);
    }
    if (!part->problem) {
      continue;
    }
    const ZipRecord& record = records[part->record];
    const bool is_unreadable = part->problem->system_errno() != 0;
    damaged.push_back({record,
                       is_unreadable ? std::move(part->problem->message)
                                     : describe_wrong_crc(part->crc, record.crc),
                       is_unreadable});
  }
  return damaged;
}

}  // namespace penstock
