#include "swap/transfer/stored_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock {

Result<std::unique_ptr<StoredReader>> StoredReader::make(IoQueue& queue,
                                                         std::vector<StoredContent> contents) {
  std::vector<Stretch> stretches;
  stretches.reserve(contents.size());
  for (const StoredContent& content : contents) {
    Stretch stretch;
    stretch.file = content.file;
    stretch.offset = content.extent->extent.offset;
    stretch.bytes = content.extent->extent.bytes;
    stretches.push_back(stretch);
  }
  Result<std::unique_ptr<StreamReader>> reader = StreamReader::make(queue, std::move(stretches));
  PENSTOCK_TRY(reader);
  return std::unique_ptr<StoredReader>(
      new StoredReader(std::move(contents), std::move(reader).value()));
}

StoredReader::StoredReader(std::vector<StoredContent> contents,
                           std::unique_ptr<StreamReader> reader)
    : contents_(std::move(contents)), reader_(std::move(reader)) {}

std::optional<StoredReader::Part> StoredReader::next() {
  std::optional<StreamReader::Part> read = reader_->next();
  if (!read) {
    return std::nullopt;
  }
  if (read->offset == 0) {
    begin_content(read->stretch);
  }
  Part part;
  part.content = content_;
  part.last = read->last;
  if (read->problem && !problem_) {
    problem_ = std::move(read->problem);
    problem_->message =
        fmt::format("tensor '{}': {}", contents_[content_].tensor_name, problem_->message);
    problem_->tensor = contents_[content_].tensor_name;
  }
  // Parts are whole blocks: the identity, which is one, lies within the last.
  const StoredTensor& stored = *contents_[content_].extent;
  const std::uint64_t of_tensor = stored.bytes() - std::min(stored.bytes(), read->offset);
  part.bytes = read->bytes.first(std::min<std::uint64_t>(read->bytes.size(), of_tensor));
  proof_->update(part.bytes);
  if (read->last) {
    if (!problem_) {
      const std::string how = proof_->difference(read->bytes.last(IdentityBlock::kBytes));
      problem_ = how.empty() ? std::nullopt : std::optional(corrupt(how));
    }
    part.problem = std::move(problem_);
  }
  return part;
}

void StoredReader::begin_content(std::size_t content) {
  content_ = content;
  proof_.emplace(contents_[content].extent->identity);
  problem_.reset();
}

Error StoredReader::corrupt(const std::string& how) const {
  const StoredContent& content = contents_[content_];
  const std::string& path = content.file->path();
  Error error = fault(Fault::kCorrupt,
                      fmt::format("tensor '{}' is damaged in {} at offset {}: {}",
                                  content.tensor_name, path, content.extent->extent.offset, how));
  error.path = path;
  error.tensor = content.tensor_name;
  return error;
}

}  // namespace penstock
