#include "archive_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "alloc/excerpt.h"
#include "swap/store/dtype_conversion.h"

namespace penstock::python {
namespace {

// Moved in one step: a tenth of a second or so, after which the caller may show how far it is.
constexpr std::uint64_t kStepBytes = 32 * kMiB;
constexpr std::uint64_t kPartBytes = kMiB;  // of memory

Result<std::unique_ptr<IoQueue>> start_queue() {
  return IoQueue::start(EngineKind::kAuto, {});
}

Result<const ZipRecord*> find(const ZipDirectory& directory, const std::string& record,
                              const std::string& path) {
  const ZipRecord* const found = directory.find(record);
  if (found == nullptr) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} has no record {}", path, excerpt(record)));
  }
  return found;
}

Result<void> check_size(const SwapEngine& engine, TensorId tensor, const ZipRecord& record) {
  const Result<TensorInfo> info = engine.info(tensor);
  PENSTOCK_TRY(info);
  if (record.bytes != info->bytes()) {
    return fault(Fault::kWrongSize,
                 fmt::format("record {} has {} bytes, tensor '{}' {}", excerpt(record.name),
                             record.bytes, info->name, info->bytes()));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ArchiveFilling>> ArchiveFilling::begin(
    SwapEngine& engine, const std::string& path, const std::vector<FilledRecord>& records) {
  std::unique_ptr<ArchiveFilling> filling(new ArchiveFilling);
  Result<std::unique_ptr<IoQueue>> queue = start_queue();
  PENSTOCK_TRY(queue);
  filling->queue_ = std::move(*queue);
  Result<RecordWriter> writer = RecordWriter::open(os_file_system(), *filling->queue_, path);
  PENSTOCK_TRY(writer);
  std::vector<TensorId> tensors;
  for (const FilledRecord& filled : records) {
    const Result<const ZipRecord*> record = find(writer->directory(), filled.record, path);
    PENSTOCK_TRY(record);
    filling->sources_.push_back({**record, filled.memory});
    if (filled.tensor) {
      PENSTOCK_TRY(check_size(engine, *filled.tensor, **record));
      tensors.push_back(*filled.tensor);
    }
  }
  Result<ContentReader> reader = engine.read(tensors);
  PENSTOCK_TRY(reader);
  filling->reader_ = std::move(*reader);
  filling->writer_ = std::move(*writer);
  return filling;
}

Result<std::optional<std::uint64_t>> ArchiveFilling::step() {
  const std::uint64_t until = moved_bytes_ + kStepBytes;
  while (moved_bytes_ < until) {
    if (source_ == sources_.size()) {
      PENSTOCK_TRY(writer_->finish());
      return std::optional<std::uint64_t>();
    }
    const ZipRecord& record = sources_[source_].record;
    if (offset_ == 0) {
      writer_->begin(record);
    }
    const Result<Part> part = next_part();
    PENSTOCK_TRY(part);
    PENSTOCK_TRY(writer_->append(part->bytes));
    moved_bytes_ += part->bytes.size();
    offset_ += part->bytes.size();
    if (part->last) {  // a content's may be empty: it says that the content is what was written
      PENSTOCK_TRY(writer_->end());
      ++source_;
      offset_ = 0;
    }
  }
  return std::optional(moved_bytes_);
}

/// Of the record that is being filled.
Result<ArchiveFilling::Part> ArchiveFilling::next_part() {
  const auto& [record, memory] = sources_[source_];
  if (memory != nullptr) {
    const std::uint64_t bytes = std::min(kPartBytes, record.bytes - offset_);
    return Part{{memory + offset_, bytes}, offset_ + bytes == record.bytes};
  }
  const Result<std::optional<ContentReader::Part>> part = reader_->next();
  PENSTOCK_TRY(part);
  PENSTOCK_CHECK(part->has_value(), "the contents end before record {}", record.name);
  return Part{(*part)->bytes, (*part)->last};
}

Result<std::unique_ptr<ArchiveIntake>> ArchiveIntake::open(SwapEngine& engine) {
  std::unique_ptr<ArchiveIntake> intake(new ArchiveIntake(engine));
  Result<std::unique_ptr<IoQueue>> queue = start_queue();
  PENSTOCK_TRY(queue);
  intake->queue_ = std::move(*queue);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    Result<ContentWriter> writer = engine.write();
    PENSTOCK_TRY(writer);
    intake->lanes_.emplace_back(std::move(*writer));
  }
  return intake;
}

Result<void> ArchiveIntake::begin(const std::string& path, std::vector<TakenRecord> records) {
  const Result<File> file = File::open(path, File::Access::kRead, DirectMode::kBuffered);
  PENSTOCK_TRY(file);
  const Result<ZipDirectory> directory = read_zip_directory(*file);
  PENSTOCK_TRY(directory);
  // As they lie in the file, so that it is read from front to back.
  std::vector<std::pair<ZipRecord, TakenRecord*>> found;
  for (TakenRecord& taken : records) {
    const Result<const ZipRecord*> record = find(*directory, taken.record, path);
    PENSTOCK_TRY(record);
    PENSTOCK_TRY(check(taken, **record));
    found.emplace_back(**record, &taken);
  }
  std::ranges::sort(found, {}, [](const auto& entry) { return entry.first.offset; });
  std::vector<ZipRecord> in_order;
  records_.clear();
  for (auto& [record, taken] : found) {
    in_order.push_back(std::move(record));
    records_.push_back(std::move(*taken));
  }
  Result<RecordReader> reader =
      RecordReader::open(os_file_system(), *queue_, path, std::move(in_order));
  PENSTOCK_TRY(reader);
  reader_.reset();
  reader_ = std::move(*reader);
  read_bytes_ = 0;
  return {};
}

/// How many bytes of its record a target takes.
Result<std::uint64_t> ArchiveIntake::source_bytes(const RecordTarget& target) const {
  const Result<TensorInfo> info = engine_.info(target.tensor);
  PENSTOCK_TRY(info);
  if (!converts(target.dtype, info->dtype)) {
    return fault(Fault::kUnsupported,
                 fmt::format("tensor '{}' is {} and cannot take {}", info->name,
                             dtype_name(info->dtype), dtype_name(target.dtype)));
  }
  return info->bytes() / dtype_bytes(info->dtype) * dtype_bytes(target.dtype);
}

Result<void> ArchiveIntake::check(const TakenRecord& taken, const ZipRecord& record) const {
  for (const std::vector<RecordTarget>& lane : taken.lanes) {
    std::uint64_t end = 0;
    for (const RecordTarget& target : lane) {
      const Result<std::uint64_t> bytes = source_bytes(target);
      PENSTOCK_TRY(bytes);
      if (target.offset < end || target.offset > record.bytes ||
          *bytes > record.bytes - target.offset) {
        return fault(Fault::kWrongSize,
                     fmt::format("{} bytes at {} of record {}, which has {}", *bytes, target.offset,
                                 excerpt(record.name), record.bytes));
      }
      end = target.offset + *bytes;
    }
  }
  return {};
}

Result<std::optional<std::uint64_t>> ArchiveIntake::step() {
  const std::uint64_t until = read_bytes_ + kStepBytes;
  while (read_bytes_ < until) {
    std::optional<RecordReader::Part> part = reader_->next();
    if (!part) {
      return std::optional<std::uint64_t>();
    }
    PENSTOCK_TRY(give(*part));
    if (part->problem) {
      return std::move(*part->problem);
    }
    read_bytes_ += part->bytes.size();
  }
  return std::optional(read_bytes_);
}

Result<void> ArchiveIntake::give(const RecordReader::Part& part) {
  const std::vector<std::vector<RecordTarget>>& targets = records_[part.record].lanes;
  for (std::size_t lane = 0; lane < targets.size(); ++lane) {
    lanes_[lane].next = part.offset == 0 ? 0 : lanes_[lane].next;
    PENSTOCK_TRY(give(lanes_[lane], targets[lane], part));
  }
  return {};
}

/// The ranges of a part that the lane's targets want.
Result<void> ArchiveIntake::give(Lane& lane, const std::vector<RecordTarget>& targets,
                                 const RecordReader::Part& part) {
  const std::uint64_t end = part.offset + part.bytes.size();
  std::uint64_t offset = part.offset;
  while (offset < end) {
    if (lane.left_bytes == 0) {
      if (lane.next == targets.size() || targets[lane.next].offset >= end) {
        return {};
      }
      const RecordTarget& target = targets[lane.next];
      const Result<std::uint64_t> bytes = source_bytes(target);
      PENSTOCK_TRY(bytes);
      PENSTOCK_TRY(lane.writer.begin(target.tensor));
      lane.left_bytes = *bytes;
      offset = std::max(offset, target.offset);
    }
    const std::uint64_t count = std::min(lane.left_bytes, end - offset);
    PENSTOCK_TRY(append(lane, targets[lane.next], part.bytes.subspan(offset - part.offset, count)));
    offset += count;
    lane.left_bytes -= count;
    if (lane.left_bytes == 0) {
      PENSTOCK_TRY(lane.writer.end());
      ++lane.next;
    }
  }
  return {};
}

Result<void> ArchiveIntake::append(Lane& lane, const RecordTarget& target,
                                   std::span<const std::byte> bytes) {
  const Result<TensorInfo> info = engine_.info(target.tensor);
  PENSTOCK_TRY(info);
  if (info->dtype == target.dtype) {
    return lane.writer.append(bytes);
  }
  converted_.resize(bytes.size() / dtype_bytes(target.dtype) * dtype_bytes(info->dtype));
  convert(target.dtype, bytes, info->dtype, converted_);
  return lane.writer.append(converted_);
}

Result<void> ArchiveIntake::publish() {
  for (Lane& lane : lanes_) {
    PENSTOCK_TRY(lane.writer.drain());
  }
  for (Lane& lane : lanes_) {
    PENSTOCK_TRY(lane.writer.publish());
  }
  return {};
}

}  // namespace penstock::python
