#include "bindings/archive/checkpoint_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "alloc/check.h"
#include "alloc/counted.h"
#include "bindings/archive/partial_file.h"
#include "bindings/archive/safetensors_layout.h"
#include "swap/store/manifest.h"
#include "swap/transfer/dtype_conversion.h"
#include "swap/transfer/stored_reader.h"
#include "swap/transfer/stream_writer.h"

namespace penstock {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";

class Exporter {
 public:
  Exporter(const DurableStore& store, FileSystem& system, const ExportOptions& options,
           const OnProgress& on_progress)
      : store_(store), system_(system), options_(options), on_progress_(on_progress) {}

  Result<ExportReport> run(IoQueue& queue);

 private:
  Result<void> choose_tensors();
  std::filesystem::path place() const {
    return options_.place.empty() ? options_.target : options_.place;
  }
  Result<void> choose_directory();
  Result<void> expect_no_checkpoint();
  Result<void> open_directory(const std::string& path);
  Result<void> lay_out();
  Result<std::unique_ptr<PartialFile>> begin_file(const std::string& name, std::uint64_t bytes);
  Result<void> write_files(IoQueue& queue);
  Result<void> write_file(const SafetensorsFile& layout, StoredReader& reader,
                          StreamWriter& writer);
  Result<void> write_part(const StoredReader::Part& part, const PartialFile& file,
                          std::uint64_t& offset, StreamWriter& writer);
  Result<void> publish();
  void take_back(std::size_t published);

  const DurableStore& store_;
  FileSystem& system_;
  const ExportOptions& options_;
  const OnProgress& on_progress_;
  std::vector<CatalogEntry> entries_;
  std::vector<TensorInfo> written_;  // the same, as they are written
  std::vector<std::size_t> order_;   // of reading
  SafetensorsLayout layout_;
  std::unique_ptr<Directory> directory_;
  std::uint64_t done_bytes_ = 0;   // read
  std::uint64_t total_bytes_ = 0;  // to be read
  std::vector<std::unique_ptr<PartialFile>> files_;
};

Result<ExportReport> Exporter::run(IoQueue& queue) {
  PENSTOCK_TRY(choose_tensors());
  PENSTOCK_TRY(choose_directory());
  PENSTOCK_TRY(lay_out());
  PENSTOCK_TRY(write_files(queue));
  PENSTOCK_TRY(publish());
  ExportReport report;
  report.tensors = written_.size();
  report.files = layout_.files.size();
  for (const TensorInfo& tensor : written_) {
    report.bytes += tensor.bytes();
  }
  return report;
}

Result<void> Exporter::choose_tensors() {
  entries_ = store_.contents();
  const std::size_t all = entries_.size();
  std::erase_if(entries_, [this](const CatalogEntry& entry) {
    return options_.left_out.contains(entry.info.name);
  });
  if (entries_.empty()) {
    return fault(Fault::kInvalidArgument,
                 all == 0 ? fmt::format("the store {} has no tensors to export", store_.directory())
                          : fmt::format("none of the {} of the store {} is whole",
                                        counted(all, "tensor"), store_.directory()));
  }
  for (const CatalogEntry& entry : entries_) {
    PENSTOCK_TRY(store_.check_readable(*entry.extent, entry.info.name));
    TensorInfo& written = written_.emplace_back(entry.info);
    if (options_.dtype && converts(entry.info.dtype, *options_.dtype)) {
      written.dtype = *options_.dtype;
    }
    total_bytes_ += entry.info.bytes();
  }
  return {};
}

Result<void> Exporter::choose_directory() {
  if (is_single_file(options_.target)) {
    const std::string parent = place().parent_path().string();
    return open_directory(parent.empty() ? "." : parent);
  }
  PENSTOCK_TRY(system_.make_directories(options_.target));
  PENSTOCK_TRY(open_directory(options_.target));
  if (Manifest::read(*directory_)) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} is a durable store; choose another directory", options_.target),
                 options_.target);
  }
  return expect_no_checkpoint();
}

Result<void> Exporter::expect_no_checkpoint() {
  const Result<std::vector<std::string>> names = directory_->list();
  PENSTOCK_TRY(names);
  const auto checkpoint = std::ranges::find_if(*names, is_safetensors);
  if (checkpoint != names->end()) {
    return system_error(EEXIST,
                        fmt::format("cannot export to {}, which holds {} already; choose another "
                                    "directory or take that away",
                                    options_.target, *checkpoint),
                        options_.target);
  }
  return {};
}

Result<void> Exporter::open_directory(const std::string& path) {
  Result<std::unique_ptr<Directory>> directory = system_.open_directory(path);
  PENSTOCK_TRY(directory);
  directory_ = std::move(directory).value();
  return {};
}

Result<void> Exporter::lay_out() {
  Result<SafetensorsLayout> layout =
      is_single_file(options_.target)
          ? lay_out_file(written_, store_.notes(), place().filename().string())
          : lay_out_shards(written_, store_.notes(), options_.max_shard_bytes);
  PENSTOCK_TRY(layout);
  layout_ = std::move(layout).value();
  for (const SafetensorsFile& file : layout_.files) {
    order_.insert(order_.end(), file.tensors.begin(), file.tensors.end());
  }
  return {};
}

Result<std::unique_ptr<PartialFile>> Exporter::begin_file(const std::string& name,
                                                          std::uint64_t bytes) {
  Result<std::unique_ptr<PartialFile>> file = PartialFile::begin(*directory_, name, bytes);
  PENSTOCK_TRY(file);
  if (options_.mode) {
    PENSTOCK_TRY((*file)->set_mode(*options_.mode));
  }
  return file;
}

Result<void> Exporter::write_files(IoQueue& queue) {
  // All of them, and all the room they need, before the first byte: a full drive is said at once.
  for (const SafetensorsFile& layout : layout_.files) {
    Result<std::unique_ptr<PartialFile>> file = begin_file(layout.name, layout.bytes);
    PENSTOCK_TRY(file);
    files_.push_back(std::move(file).value());
  }
  std::vector<StoredContent> in_order;
  for (const std::size_t index : order_) {
    const CatalogEntry& entry = entries_[index];
    in_order.push_back({entry.info.name, entry.extent, &store_.file(*entry.extent)});
  }
  Result<std::unique_ptr<StoredReader>> reader = StoredReader::make(queue, std::move(in_order));
  PENSTOCK_TRY(reader);
  Result<std::unique_ptr<StreamWriter>> writer = StreamWriter::make(queue);
  PENSTOCK_TRY(writer);
  for (const SafetensorsFile& layout : layout_.files) {
    PENSTOCK_TRY(write_file(layout, **reader, **writer));
  }
  PENSTOCK_TRY((*writer)->drain());
  for (const auto& file : files_) {
    PENSTOCK_TRY(file->finish());
  }
  return {};
}

Result<void> Exporter::write_file(const SafetensorsFile& layout, StoredReader& reader,
                                  StreamWriter& writer) {
  const auto index = static_cast<std::size_t>(&layout - layout_.files.data());
  const PartialFile& file = *files_[index];
  PENSTOCK_TRY(writer.write(file.file(), 0, std::as_bytes(std::span(layout.header))));
  std::uint64_t offset = layout.header.size();
  for (std::size_t tensors = 0; tensors < layout.tensors.size();) {
    if (options_.interrupted && options_.interrupted()) {
      return system_error(ECANCELED, "interrupted; nothing was written");
    }
    std::optional<StoredReader::Part> part = reader.next();
    PENSTOCK_CHECK(part.has_value(), "the parts end before tensor {} of {}", tensors, layout.name);
    PENSTOCK_TRY(write_part(*part, file, offset, writer));
    if (part->problem) {
      Error error = std::move(*part->problem);
      error.message +=
          "; `penstock verify` lists all that is damaged, --skip-damaged leaves it out";
      return error;
    }
    done_bytes_ += part->bytes.size();
    if (on_progress_) {
      on_progress_(done_bytes_, total_bytes_);
    }
    tensors += part->last ? 1U : 0U;
  }
  return {};
}

Result<void> Exporter::write_part(const StoredReader::Part& part, const PartialFile& file,
                                  std::uint64_t& offset, StreamWriter& writer) {
  const std::size_t index = order_[part.content];
  const DType from = entries_[index].info.dtype;
  const DType to = written_[index].dtype;
  if (from == to) {
    PENSTOCK_TRY(writer.write(file.file(), offset, part.bytes));
    offset += part.bytes.size();
    return {};
  }
  std::span<const std::byte> source = part.bytes;
  while (!source.empty()) {
    const Result<std::span<std::byte>> room = writer.room(file.file(), offset);
    PENSTOCK_TRY(room);
    const std::size_t count =
        std::min(room->size() / dtype_bytes(to), source.size() / dtype_bytes(from));
    PENSTOCK_CHECK(count > 0, "an element of {} at {}, across two chunks", dtype_name(to), offset);
    convert(from, source.first(count * dtype_bytes(from)), to,
            room->first(count * dtype_bytes(to)));
    writer.advance(count * dtype_bytes(to));
    offset += count * dtype_bytes(to);
    source = source.subspan(count * dtype_bytes(from));
  }
  return {};
}

/// Everything is whole and synced under other names; a directory is a checkpoint with its index.
Result<void> Exporter::publish() {
  std::unique_ptr<PartialFile> index;
  if (!layout_.index.empty()) {
    Result<std::unique_ptr<PartialFile>> begun = begin_file(kIndexName, layout_.index.size());
    PENSTOCK_TRY(begun);
    index = std::move(begun).value();
    PENSTOCK_TRY(index->write(layout_.index));
    PENSTOCK_TRY(index->finish());
  }
  if (is_single_file(options_.target)) {
    PENSTOCK_TRY(files_.front()->publish());
    return directory_->sync();
  }
  PENSTOCK_TRY(expect_no_checkpoint());  // another export may have ended meanwhile
  for (std::size_t at = 0; at < files_.size(); ++at) {
    if (Result<void> published = files_[at]->publish_new(); published.has_error()) {
      take_back(at);
      return published;
    }
  }
  Result<void> published = index ? index->publish_new() : Result<void>();
  if (published.has_error()) {
    take_back(files_.size());
    return published;
  }
  return directory_->sync();
}

/// Shards without their index would be in the way of the next export.
void Exporter::take_back(std::size_t published) {
  for (std::size_t at = 0; at < published; ++at) {
    (void)directory_->remove(layout_.files[at].name);
  }
}

}  // namespace

bool is_single_file(const std::string& target) {
  return target.ends_with(".safetensors");
}

Result<ExportReport> export_checkpoint(const DurableStore& store, FileSystem& system,
                                       IoQueue& queue, const ExportOptions& options,
                                       const OnProgress& on_progress) {
  return Exporter(store, system, options, on_progress).run(queue);
}

}  // namespace penstock
