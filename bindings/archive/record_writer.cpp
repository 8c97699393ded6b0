#include "bindings/archive/record_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "bindings/archive/crc32.h"

namespace penstock {

Result<RecordWriter> RecordWriter::open(FileSystem& system, IoQueue& queue,
                                        const std::string& path) {
  RecordWriter writer;
  Result<SourceFile> file = SourceFile::open(system, path, File::Access::kReadWrite);
  PENSTOCK_TRY(file);
  Result<ZipDirectory> directory = read_zip_directory(file->buffered);
  PENSTOCK_TRY(directory);
  PENSTOCK_TRY(file->buffered.reserve(0, directory->file_bytes));
  Result<std::unique_ptr<StreamWriter>> streams = StreamWriter::make(queue);
  PENSTOCK_TRY(streams);
  writer.file_ = std::make_unique<SourceFile>(std::move(*file));
  writer.directory_ = std::move(*directory);
  writer.writer_ = std::move(*streams);
  return writer;
}

void RecordWriter::begin(const ZipRecord& record) {
  record_ = record;
  offset_ = 0;
  crc_ = 0;
  streamed_ = is_aligned(record.offset, kBlockBytes) ? &file_->direct : &file_->buffered;
}

Result<void> RecordWriter::append(std::span<const std::byte> bytes) {
  PENSTOCK_CHECK(bytes.size() <= record_.bytes - offset_, "{} bytes at {} of a record of {}",
                 bytes.size(), offset_, record_.bytes);
  crc_ = crc32(crc_, bytes);
  const std::uint64_t blocks_end =
      streamed_->direct().supported ? align_down(record_.bytes, kBlockBytes) : record_.bytes;
  if (offset_ < blocks_end) {
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), blocks_end - offset_);
    PENSTOCK_TRY(writer_->write(*streamed_, record_.offset + offset_, bytes.first(count)));
    offset_ += count;
    bytes = bytes.subspan(count);
  }
  if (bytes.empty()) {
    return {};
  }
  if (offset_ == blocks_end) {
    tails_.push_back({record_.offset + offset_, {}});
  }
  tails_.back().bytes.insert(tails_.back().bytes.end(), bytes.begin(), bytes.end());
  offset_ += bytes.size();
  return {};
}

Result<void> RecordWriter::end() {
  if (offset_ != record_.bytes) {
    return fault(Fault::kWrongSize,
                 fmt::format("{}: record {} has {} bytes, {} came", file_->buffered.path(),
                             record_.name, record_.bytes, offset_));
  }
  filled_.emplace_back(record_, crc_);
  return {};
}

Result<void> RecordWriter::finish() {
  PENSTOCK_TRY(writer_->drain());
  for (const Tail& tail : tails_) {
    PENSTOCK_TRY(file_->buffered.write_at(tail.offset, tail.bytes));
  }
  for (const auto& [record, crc] : filled_) {
    PENSTOCK_TRY(write_zip_crc(file_->buffered, record, crc));
  }
  return file_->buffered.sync();
}

}  // namespace penstock
