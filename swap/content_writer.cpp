#include "swap/content_writer.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "alloc/out_of_memory.h"
#include "swap/engine/content_streams.h"

namespace penstock {

ContentWriter::ContentWriter(std::shared_ptr<ContentStreams> streams,
                             std::unique_ptr<StoredWriter> writer)
    : streams_(std::move(streams)), writer_(std::move(writer)) {}

/// The one given up ends as in its destructor: member by member its engine would go first.
ContentWriter& ContentWriter::operator=(ContentWriter&& other) noexcept {
  if (this != &other) {
    std::destroy_at(this);
    std::construct_at(this, std::move(other));
  }
  return *this;
}

/// What was not published never was: extents go back when their writes have ended.
ContentWriter::~ContentWriter() {
  writer_.reset();
}

Result<void> ContentWriter::begin(TensorId tensor) {
  PENSTOCK_TRY(between_contents());
  Result<ContentStreams::NewContent> room = streams_->reserve(tensor);
  PENSTOCK_TRY(room);
  left_bytes_ = room->bytes;
  if (room->stored) {
    writer_->begin(room->stored, room->store->file(*room->stored));
  }
  given_.push_back({tensor, room->since, std::move(room->lease), nullptr, std::move(room->store),
                    std::move(room->use)});
  is_open_ = true;
  return {};
}

Result<void> ContentWriter::between_contents() const {
  PENSTOCK_TRY(not_failed());
  return is_open_ ? Result<void>(fault(Fault::kInvalidArgument, "a content has not ended"))
                  : Result<void>();
}

Result<void> ContentWriter::not_failed() const {
  return failed_ ? Result<void>(copy_of(*failed_)) : Result<void>();
}

Result<void> ContentWriter::append(std::span<const std::byte> bytes) {
  PENSTOCK_TRY(not_failed());
  if (!is_open_ || bytes.size() > left_bytes_) {
    return fault(Fault::kWrongSize, fmt::format("{} bytes for a content of which {} are left",
                                                bytes.size(), left_bytes_));
  }
  if (Given& given = given_.back(); given.lease) {
    std::memcpy(given.lease.span().last(left_bytes_).data(), bytes.data(), bytes.size());
  } else if (Result<void> appended = writer_->append(bytes); appended.has_error()) {
    failed_ = std::move(appended).error();  // some of the bytes may have been taken
    return copy_of(*failed_);
  }
  left_bytes_ -= bytes.size();
  return {};
}

Result<void> ContentWriter::end() {
  PENSTOCK_TRY(not_failed());
  if (!is_open_) {
    return fault(Fault::kInvalidArgument, "no content has begun");
  }
  if (left_bytes_ > 0) {
    return fault(Fault::kWrongSize, fmt::format("a content ends {} bytes early", left_bytes_));
  }
  is_open_ = false;
  Given& given = given_.back();
  if (given.lease) {
    return {};
  }
  Result<std::shared_ptr<StoredTensor>> stored = writer_->end();
  PENSTOCK_TRY(stored);
  given.stored = std::move(*stored);
  return {};
}

Result<void> ContentWriter::publish() {
  PENSTOCK_TRY(between_contents());
  PENSTOCK_TRY(writer_->drain());
  for (Given& given : given_) {
    const Ticket ticket = given.lease ? streams_->commit(given.lease, given.since)
                                      : streams_->adopt(given.tensor, std::move(given.stored));
    given.lease.release();
    PENSTOCK_TRY(ticket.wait());
  }
  given_.clear();
  return {};
}

}  // namespace penstock
