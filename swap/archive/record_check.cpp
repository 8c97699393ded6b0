#include "swap/archive/record_check.h"

#include <optional>
#include <utility>

#include "swap/archive/record_reader.h"

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
    if (part->problem) {
      damaged.push_back({records[part->record], std::move(part->problem->message)});
    }
  }
  return damaged;
}

}  // namespace penstock
