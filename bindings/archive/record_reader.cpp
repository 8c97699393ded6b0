#include "bindings/archive/record_reader.h"

#include <fmt/format.h>

#include <utility>

#include "alloc/excerpt.h"
#include "bindings/archive/crc32.h"

namespace penstock {

Result<RecordReader> RecordReader::open(FileSystem& system, IoQueue& queue, const std::string& path,
                                        std::vector<ZipRecord> records) {
  Result<SourceFile> file = SourceFile::open(system, path);
  PENSTOCK_TRY(file);
  RecordReader reader;
  reader.path_ = path;
  reader.file_ = std::make_unique<SourceFile>(std::move(*file));
  std::vector<Stretch> stretches;
  stretches.reserve(records.size());
  for (const ZipRecord& record : records) {
    stretches.push_back(reader.file_->stretch(record.offset, record.bytes));
  }
  reader.records_ = std::move(records);
  Result<std::unique_ptr<StreamReader>> streams = StreamReader::make(queue, std::move(stretches));
  PENSTOCK_TRY(streams);
  reader.reader_ = std::move(*streams);
  return reader;
}

std::optional<RecordReader::Part> RecordReader::next() {
  std::optional<StreamReader::Part> read = reader_->next();
  if (!read) {
    return std::nullopt;
  }
  const ZipRecord& record = records_[read->stretch];
  if (read->offset == 0) {
    crc_ = 0;
    problem_.reset();
  }
  crc_ = crc32(crc_, read->bytes);
  if (read->problem && !problem_) {
    problem_ = std::move(read->problem);
    problem_->message = fmt::format("record {}: {}", excerpt(record.name), problem_->message);
  }
  if (read->last && !problem_ && record.has_crc && crc_ != record.crc) {
    problem_ = fault(Fault::kCorrupt,
                     fmt::format("record {} of {} is damaged: {}", excerpt(record.name), path_,
                                 describe_wrong_crc(crc_, record.crc)),
                     path_);
  }
  Part part{read->stretch, read->offset, read->bytes, read->last, crc_, std::nullopt};
  if (part.last) {
    part.problem = std::exchange(problem_, std::nullopt);
  }
  return part;
}

}  // namespace penstock
