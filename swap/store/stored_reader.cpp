#include "swap/store/stored_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock {

Result<std::unique_ptr<StoredReader>> StoredReader::make(const DurableStore& store, IoQueue& queue,
                                                         std::vector<CatalogEntry> entries) {
  std::vector<Stretch> stretches;
  stretches.reserve(entries.size());
  for (const CatalogEntry& entry : entries) {
    Stretch stretch;
    stretch.file = &store.file(*entry.extent);
    stretch.offset = entry.extent->extent.offset;
    stretch.bytes = entry.extent->extent.bytes;
    stretches.push_back(stretch);
  }
  Result<std::unique_ptr<StreamReader>> reader = StreamReader::make(queue, std::move(stretches));
  if (reader.has_error()) {
    return std::move(reader).error();
  }
  return std::unique_ptr<StoredReader>(
      new StoredReader(store, std::move(entries), std::move(reader).value()));
}

StoredReader::StoredReader(const DurableStore& store, std::vector<CatalogEntry> entries,
                           std::unique_ptr<StreamReader> reader)
    : store_(store), entries_(std::move(entries)), reader_(std::move(reader)) {}

std::optional<StoredReader::Part> StoredReader::next() {
  std::optional<StreamReader::Part> read = reader_->next();
  if (!read) {
    return std::nullopt;
  }
  if (read->offset == 0) {
    begin_tensor(read->stretch);
  }
  Part part;
  part.entry = entry_;
  part.last = read->last;
  if (read->problem && !problem_) {
    problem_ = std::move(read->problem);
    problem_->message =
        fmt::format("tensor '{}': {}", entries_[entry_].info.name, problem_->message);
    problem_->tensor = entries_[entry_].info.name;
  }
  // Parts are whole blocks: the identity, which is one, lies within the last.
  const StoredTensor& stored = *entries_[entry_].extent;
  const std::uint64_t of_tensor = stored.bytes() - std::min(stored.bytes(), read->offset);
  part.bytes = read->bytes.first(std::min<std::uint64_t>(read->bytes.size(), of_tensor));
  checksum_->update(part.bytes);
  if (read->last) {
    if (!problem_) {
      problem_ = prove(read->bytes.last(IdentityBlock::kBytes));
    }
    part.problem = std::move(problem_);
  }
  return part;
}

void StoredReader::begin_tensor(std::size_t entry) {
  entry_ = entry;
  const IdentityBlock& identity = entries_[entry].extent->identity;
  checksum_.emplace(static_cast<IntegrityLevel>(identity.level), identity.bytes);
  problem_.reset();
}

std::optional<Error> StoredReader::prove(std::span<const std::byte> identity) {
  const IdentityBlock& expected = entries_[entry_].extent->identity;
  if (const std::string difference = expected.difference(identity); !difference.empty()) {
    return corrupt(difference);
  }
  if (checksum_->finish() != expected.checksum) {
    return corrupt("bytes whose checksum is not that of what was written");
  }
  return std::nullopt;
}

Error StoredReader::corrupt(const std::string& how) const {
  const CatalogEntry& entry = entries_[entry_];
  const std::string& path = store_.file(*entry.extent).path();
  Error error =
      fault(Fault::kCorrupt, fmt::format("tensor '{}' is damaged in {} at offset {}: {}",
                                         entry.info.name, path, entry.extent->extent.offset, how));
  error.path = path;
  error.tensor = entry.info.name;
  return error;
}

}  // namespace penstock
