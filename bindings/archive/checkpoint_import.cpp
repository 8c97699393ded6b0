#include "bindings/archive/checkpoint_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bindings/archive/source_file.h"
#include "swap/plan/tensor_name.h"
#include "swap/transfer/stored_writer.h"
#include "swap/transfer/stream_reader.h"

namespace penstock {
namespace {

// So much is written before it is staged, which lets the store publish and free what it supersedes.
constexpr std::uint64_t kSettleBytes = 256 * kMiB;

class Importer {
 public:
  Importer(const Checkpoint& checkpoint, DurableStore& store, const OnProgress& on_progress)
      : checkpoint_(checkpoint), store_(store), on_progress_(on_progress) {
    total_bytes_ = checkpoint.inventory().bytes();
  }

  Result<void> open(FileSystem& system, IoQueue& queue);
  Result<ImportReport> run();

 private:
  Result<void> take(const StreamReader::Part& part);
  Result<void> begin_tensor(const TensorInfo& info);
  Result<void> end_tensor(const TensorInfo& info);
  Result<void> settle();

  const Checkpoint& checkpoint_;
  DurableStore& store_;
  const OnProgress& on_progress_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;

  std::vector<CatalogEntry> given_;  // to the writer, not staged yet
  std::uint64_t given_bytes_ = 0;

  // Last: they wait for what is under way before extents and files go.
  std::vector<SourceFile> files_;
  std::unique_ptr<StreamReader> reader_;
  std::unique_ptr<StoredWriter> writer_;
};

Result<void> Importer::open(FileSystem& system, IoQueue& queue) {
  for (const std::string& path : checkpoint_.files) {
    Result<SourceFile> file = SourceFile::open(system, path);
    PENSTOCK_TRY(file);
    files_.push_back(std::move(file).value());
  }
  std::vector<Stretch> stretches;
  stretches.reserve(checkpoint_.tensors.size());
  for (const CheckpointTensor& tensor : checkpoint_.tensors) {
    stretches.push_back(files_[tensor.file].stretch(tensor.offset, tensor.info.bytes()));
  }
  Result<std::unique_ptr<StreamReader>> reader = StreamReader::make(queue, std::move(stretches));
  PENSTOCK_TRY(reader);
  Result<std::unique_ptr<StoredWriter>> writer = StoredWriter::make(queue, IntegrityLevel::kFull);
  PENSTOCK_TRY(writer);
  reader_ = std::move(reader).value();
  writer_ = std::move(writer).value();
  return {};
}

Result<ImportReport> Importer::run() {
  const std::uint64_t journal_before = store_.counters().journal_bytes;
  while (const std::optional<StreamReader::Part> part = reader_->next()) {
    PENSTOCK_TRY(take(*part));
  }
  for (const auto& [key, text] : checkpoint_.metadata) {
    store_.stage_note(key, text);
  }
  PENSTOCK_TRY(settle());
  PENSTOCK_TRY(store_.publish());
  ImportReport report;
  report.tensors = checkpoint_.tensors.size();
  report.bytes = total_bytes_;
  report.written_bytes =
      writer_->written_bytes() + store_.counters().journal_bytes - journal_before;
  return report;
}

Result<void> Importer::take(const StreamReader::Part& part) {
  const TensorInfo& info = checkpoint_.tensors[part.stretch].info;
  if (part.problem) {
    Error error = *part.problem;
    error.message = fmt::format("cannot import tensor '{}': {}", info.name, error.message);
    error.tensor = info.name;
    return error;
  }
  if (part.offset == 0) {
    PENSTOCK_TRY(begin_tensor(info));
  }
  PENSTOCK_TRY(writer_->append(part.bytes));
  if (part.last) {
    PENSTOCK_TRY(end_tensor(info));
  }
  done_bytes_ += part.bytes.size();
  if (on_progress_) {
    on_progress_(done_bytes_, total_bytes_);
  }
  return {};
}

Result<void> Importer::begin_tensor(const TensorInfo& info) {
  if (given_bytes_ >= kSettleBytes) {
    PENSTOCK_TRY(settle());
  }
  const std::optional<CatalogEntry> old = store_.find(info.name);
  const std::uint64_t number = old ? old->extent->identity.tensor : store_.number_tensor();
  const std::uint64_t generation = old ? old->extent->identity.generation + 1 : 1;
  Result<StoredTensor> reserved = store_.reserve(number, generation, info.bytes());
  if (reserved.has_error()) {
    // What is written already may supersede what takes the room.
    PENSTOCK_TRY(settle());
    reserved = store_.reserve(number, generation, info.bytes());
  }
  if (reserved.has_error()) {
    Error error = std::move(reserved).error();
    error.message = fmt::format("cannot import tensor '{}' ({}): {}", info.name,
                                format_bytes(info.bytes()), error.message);
    error.tensor = info.name;
    return error;
  }
  writer_->begin(store_.hold(*reserved), store_.file(*reserved));
  return {};
}

Result<void> Importer::end_tensor(const TensorInfo& info) {
  Result<std::shared_ptr<StoredTensor>> stored = writer_->end();
  PENSTOCK_TRY(stored);
  given_bytes_ += (*stored)->extent.bytes;
  given_.push_back({info, std::move(*stored)});
  return {};
}

/// Waits for what the writer has, so that it may be published.
Result<void> Importer::settle() {
  PENSTOCK_TRY(writer_->drain());
  for (const CatalogEntry& entry : given_) {
    PENSTOCK_TRY(store_.stage(entry.info, entry.extent));
  }
  given_.clear();
  given_bytes_ = 0;
  return {};
}

}  // namespace

Result<void> check_importable(const Checkpoint& checkpoint) {
  if (checkpoint.tensors.empty()) {
    return fault(Fault::kInvalidArgument, "there is nothing to import: no tensors");
  }
  for (const CheckpointTensor& tensor : checkpoint.tensors) {
    if (Result<void> named = check_tensor_name(tensor.info.name); named.has_error()) {
      Error error = std::move(named).error();
      error.message = fmt::format("{}: {}", checkpoint.files[tensor.file], error.message);
      error.path = checkpoint.files[tensor.file];
      return error;
    }
  }
  return {};
}

Result<ImportReport> import_checkpoint(const Checkpoint& checkpoint, FileSystem& system,
                                       DurableStore& store, IoQueue& queue,
                                       const OnProgress& on_progress) {
  PENSTOCK_TRY(check_importable(checkpoint));
  Importer importer(checkpoint, store, on_progress);
  PENSTOCK_TRY(importer.open(system, queue));
  return importer.run();
}

}  // namespace penstock
