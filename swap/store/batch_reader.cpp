#include "swap/store/batch_reader.h"

#include <algorithm>

#include "swap/store/wire.h"
#include "swap/transfer/checksum.h"

namespace penstock {
namespace {

constexpr std::uint64_t kWindowBytes = 4 * kMiB;
// The largest thing that a record carries is a checkpoint's metadata, and the format that brings it
// allows headers of 100 MB.
constexpr std::uint64_t kRecordBytesMax = 128 * kMiB;
constexpr std::uint64_t kLengthBytes = sizeof(std::uint32_t);

}  // namespace

BatchReader::BatchReader(const ManifestBytes& bytes, std::uint64_t offset,
                         const BatchHeader& header)
    : source_(bytes),
      header_(header),
      begin_(offset + BatchHeader::kBytes),
      end_(begin_ + std::min(header.records_bytes, bytes.size - begin_)),
      next_(begin_) {}

Result<bool> BatchReader::is_whole() {
  if (end_ - begin_ != header_.records_bytes ||
      header_.batch_bytes() > source_.size - (begin_ - BatchHeader::kBytes)) {
    return false;
  }
  ChecksumStream seal(IntegrityLevel::kFull, header_.records_bytes);
  for (std::uint64_t at = begin_; at < end_;) {
    const Result<std::span<const std::byte>> part = window(at, 1);
    PENSTOCK_TRY(part);
    seal.update(*part);
    at += part->size();
  }
  return seal.finish() == header_.records_seal;
}

Result<std::optional<ManifestRecord>> BatchReader::next() {
  std::uint64_t bytes = kLengthBytes;
  if (end_ - next_ >= bytes) {
    const Result<std::span<const std::byte>> length = window(next_, bytes);
    PENSTOCK_TRY(length);
    bytes += WireReader(*length).take_u32();
  }
  if (bytes > end_ - next_ || bytes > kRecordBytesMax) {
    return std::optional<ManifestRecord>();
  }
  const Result<std::span<const std::byte>> record = window(next_, bytes);
  PENSTOCK_TRY(record);
  WireReader in(record->first(static_cast<std::size_t>(bytes)));
  next_ += bytes;
  return decode_record(in);
}

/// What is held from `offset` on, at least `bytes` of it, up to the end of the records.
Result<std::span<const std::byte>> BatchReader::window(std::uint64_t offset, std::uint64_t bytes) {
  if (offset < held_begin_ || offset + bytes > held_begin_ + held_.size()) {
    held_.resize(static_cast<std::size_t>(std::min(std::max(bytes, kWindowBytes), end_ - offset)));
    held_begin_ = offset;
    if (Result<void> filled = source_.read(offset, held_); filled.has_error()) {
      held_.clear();
      return std::move(filled).error();
    }
  }
  return std::span<const std::byte>(held_).subspan(static_cast<std::size_t>(offset - held_begin_));
}

}  // namespace penstock
