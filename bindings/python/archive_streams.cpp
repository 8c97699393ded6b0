#include "archive_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "alloc/excerpt.h"
#include "swap/transfer/dtype_conversion.h"

namespace penstock::python {
namespace {

// Moved in one step: a tenth of a second or so, after which the caller may show how far it is.
constexpr std::uint64_t kStepBytes = 32 * kMiB;
constexpr std::uint64_t kPartBytes = kMiB;  // of memory

Result<const ZipRecord*> find(const ZipDirectory& directory, const std::string& record,
                              const std::string& path) {
  const ZipRecord* const found = directory.find(record);
  if (found == nullptr) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} has no record {}", path, excerpt(record)));
  }
  return found;
}

std::uint64_t end_of(const RecordTarget& target) {
  return target.offset + target.elements * dtype_bytes(target.dtype);
}

Result<void> check_size(const SwapEngine& engine, const std::vector<FilledTensor>& tensors,
                        const ZipRecord& record) {
  std::uint64_t bytes = 0;
  std::string name;
  for (const auto& [tensor, layout] : tensors) {
    const auto found = engine.info(tensor);
    PENSTOCK_TRY(found);
    const TensorInfo& info = **found;
    if (layout != nullptr && layout->bytes() != info.bytes()) {
      return fault(Fault::kWrongSize, fmt::format("tensor '{}' has {} bytes, its layout {}",
                                                  info.name, info.bytes(), layout->bytes()));
    }
    bytes += layout != nullptr ? layout->elements() * sizeof(float) : info.bytes();
    name = info.name;
  }
  if (record.bytes != bytes) {
    return fault(Fault::kWrongSize,
                 fmt::format("record {} has {} bytes, {} tensors up to '{}' {}",
                             excerpt(record.name), record.bytes, tensors.size(), name, bytes));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ArchiveFilling>> ArchiveFilling::begin(
    SwapEngine& engine, EngineKind kind, const std::string& path,
    const std::vector<FilledRecord>& records) {
  std::unique_ptr<ArchiveFilling> filling(new ArchiveFilling);
  Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(kind, {});
  PENSTOCK_TRY(queue);
  filling->queue_ = std::move(*queue);
  Result<RecordWriter> writer = RecordWriter::open(os_file_system(), *filling->queue_, path);
  PENSTOCK_TRY(writer);
  std::vector<TensorId> tensors;
  for (const FilledRecord& filled : records) {
    const Result<const ZipRecord*> record = find(writer->directory(), filled.record, path);
    PENSTOCK_TRY(record);
    filling->sources_.push_back({**record, filled.memory, filled.tensors});
    if (!filled.tensors.empty()) {
      PENSTOCK_TRY(check_size(engine, filled.tensors, **record));
      std::ranges::transform(filled.tensors, std::back_inserter(tensors), &FilledTensor::tensor);
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
  Source& source = sources_[source_];
  if (source.memory != nullptr) {
    const std::uint64_t bytes = std::min(kPartBytes, source.record.bytes - offset_);
    return Part{{source.memory + offset_, bytes}, offset_ + bytes == source.record.bytes};
  }
  if (const auto& layout = source.tensors[source.done].layout) {
    const Result<std::span<const std::byte>> values = next_decoded(*layout);
    PENSTOCK_TRY(values);
    ++source.done;
    return Part{*values, source.done == source.tensors.size()};
  }
  const Result<std::optional<ContentReader::Part>> part = reader_->next();
  PENSTOCK_TRY(part);
  PENSTOCK_CHECK(part->has_value(), "the contents end before record {}", source.record.name);
  source.done += (*part)->last ? 1U : 0U;
  return Part{(*part)->bytes, source.done == source.tensors.size()};
}

/// All of the next content, as floats.
Result<std::span<const std::byte>> ArchiveFilling::next_decoded(const MomentLayout& layout) {
  encoded_.clear();
  for (bool last = false; !last;) {
    const Result<std::optional<ContentReader::Part>> part = reader_->next();
    PENSTOCK_TRY(part);
    PENSTOCK_CHECK(part->has_value(), "the contents end within a tensor");
    encoded_.insert(encoded_.end(), (*part)->bytes.begin(), (*part)->bytes.end());
    last = (*part)->last;
  }
  decoded_.resize(layout.elements());
  layout.decode(encoded_, decoded_);
  return std::as_bytes(std::span(decoded_));
}

Result<std::unique_ptr<ArchiveIntake>> ArchiveIntake::open(SwapEngine& engine, EngineKind kind) {
  std::unique_ptr<ArchiveIntake> intake(new ArchiveIntake(engine));
  Result<std::unique_ptr<IoQueue>> queue = IoQueue::start(kind, {});
  PENSTOCK_TRY(queue);
  intake->queue_ = std::move(*queue);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    Result<ContentWriter> writer = engine.write();
    PENSTOCK_TRY(writer);
    intake->lanes_.push_back({IntakeLane(engine, std::move(*writer), intake->layouts_)});
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

Result<void> ArchiveIntake::check(const TakenRecord& taken, const ZipRecord& record) const {
  for (const std::vector<RecordTarget>& lane : taken.lanes) {
    std::uint64_t end = 0;
    for (const RecordTarget& target : lane) {
      PENSTOCK_TRY(check(target, record));
      if (target.offset < end) {
        return fault(Fault::kInvalidArgument, fmt::format("targets of record {} overlap at byte {}",
                                                          excerpt(record.name), target.offset));
      }
      end = end_of(target);
    }
  }
  return {};
}

Result<void> ArchiveIntake::check(const RecordTarget& target, const ZipRecord& record) const {
  const auto found = engine_.info(target.tensor);
  PENSTOCK_TRY(found);
  const TensorInfo& info = **found;
  const DType taken = layouts_.contains(target.tensor) ? DType::kF32 : info.dtype;
  const std::uint64_t element_bytes = dtype_bytes(target.dtype);
  if (target.offset > record.bytes ||
      target.elements > (record.bytes - target.offset) / element_bytes) {
    return fault(Fault::kWrongSize, fmt::format("{} elements of {} at byte {} of record {}, which "
                                                "has {} bytes",
                                                target.elements, dtype_name(target.dtype),
                                                target.offset, excerpt(record.name), record.bytes));
  }
  if (taken == target.dtype) {
    return {};
  }
  // Parts of a record end at blocks of the file, and only whole elements are converted.
  if (!converts(target.dtype, taken) || (record.offset + target.offset) % element_bytes != 0 ||
      record.offset % element_bytes != 0) {
    return fault(
        Fault::kUnsupported,
        fmt::format("tensor '{}' is {} and cannot take {} at byte {} of the file", info.name,
                    dtype_name(taken), dtype_name(target.dtype), record.offset + target.offset));
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
    // After a block that could not be read nothing fits; the last part says what is wrong.
    is_unreadable_ = (is_unreadable_ && part->offset != 0) || part->bytes.empty();
    if (!is_unreadable_) {
      PENSTOCK_TRY(give(*part));
    }
    if (part->problem) {
      return std::move(*part->problem);
    }
    read_bytes_ += part->bytes.size();
  }
  return std::optional(read_bytes_);
}

/// The ranges of a part that targets want.
Result<void> ArchiveIntake::give(const RecordReader::Part& part) {
  const std::vector<std::vector<RecordTarget>>& lanes = records_[part.record].lanes;
  const std::uint64_t part_end = part.offset + part.bytes.size();
  for (std::size_t number = 0; number < lanes.size(); ++number) {
    const std::vector<RecordTarget>& targets = lanes[number];
    Lane& lane = lanes_[number];
    lane.next = part.offset == 0 ? 0 : lane.next;
    for (; lane.next < targets.size(); ++lane.next) {
      const RecordTarget& target = targets[lane.next];
      const std::uint64_t begin = std::max(target.offset, part.offset);
      const std::uint64_t end = std::min(end_of(target), part_end);
      if (begin < end) {
        PENSTOCK_TRY(lane.tensors.append(target.tensor, target.dtype,
                                         part.bytes.subspan(begin - part.offset, end - begin)));
      }
      if (end_of(target) > part_end) {
        break;  // the next part has the rest
      }
    }
  }
  return {};
}

void ArchiveIntake::encode(TensorId tensor, std::shared_ptr<const MomentLayout> layout) {
  layouts_[tensor] = std::move(layout);
}

Result<void> ArchiveIntake::pad(std::size_t lane, TensorId tensor, std::uint64_t elements) {
  if (lane >= lanes_.size()) {
    return fault(Fault::kInvalidArgument, fmt::format("there are {} lanes", lanes_.size()));
  }
  return lanes_[lane].tensors.pad(tensor, elements);
}

Result<void> ArchiveIntake::publish() {
  for (Lane& lane : lanes_) {
    PENSTOCK_TRY(lane.tensors.drain());
  }
  for (Lane& lane : lanes_) {
    PENSTOCK_TRY(lane.tensors.publish());
  }
  return {};
}

}  // namespace penstock::python
