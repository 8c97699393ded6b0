#include "swap/transfer/stored_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "alloc/check.h"

namespace penstock {

Result<std::unique_ptr<StoredWriter>> StoredWriter::make(IoQueue& queue, IntegrityLevel level) {
  Result<std::unique_ptr<StreamWriter>> writer = StreamWriter::make(queue);
  PENSTOCK_TRY(writer);
  return std::unique_ptr<StoredWriter>(new StoredWriter(std::move(writer).value(), level));
}

void StoredWriter::begin(std::shared_ptr<StoredTensor> stored, const File& file) {
  stored_ = std::move(stored);
  file_ = &file;
  offset_ = 0;
  stored_->identity.level = static_cast<std::uint64_t>(level_);
  proof_.emplace(stored_->identity);
  filled_ = {};
}

Result<void> StoredWriter::append(std::span<const std::byte> bytes) {
  PENSTOCK_CHECK(bytes.size() <= stored_->bytes() - offset_, "{} bytes at {} of a content of {}",
                 bytes.size(), offset_, stored_->bytes());
  while (!bytes.empty()) {
    const Result<std::span<std::byte>> room =
        writer_->room(*file_, stored_->extent.offset + offset_);
    PENSTOCK_TRY(room);
    const std::size_t count = std::min(room->size(), bytes.size());
    std::memcpy(room->data(), bytes.data(), count);
    writer_->advance(count);
    offset_ += count;
    bytes = bytes.subspan(count);
    filled_ =
        filled_.empty() ? room->first(count) : std::span(filled_.data(), filled_.size() + count);
    if (count == room->size()) {
      hash_filled();
    }
  }
  return {};
}

/// Chunks end at whole blocks, as ContentProof wants its parts; the next room() may reuse this
/// one's memory.
void StoredWriter::hash_filled() {
  proof_->update(filled_);
  filled_ = {};
}

/// Zeros up to the whole block, then the identity, as TensorTransfer has it.
Result<std::shared_ptr<StoredTensor>> StoredWriter::end() {
  constexpr std::array<std::byte, IdentityBlock::kBytes> kZeros{};
  PENSTOCK_CHECK(offset_ == stored_->bytes(), "{} bytes of a content of {}", offset_,
                 stored_->bytes());
  hash_filled();
  std::array<std::byte, IdentityBlock::kBytes> identity;
  stored_->identity.checksum = proof_->seal(identity);
  const std::uint64_t end = stored_->layout_bytes() - IdentityBlock::kBytes;
  PENSTOCK_TRY(writer_->write(*file_, stored_->extent.offset + offset_,
                              std::span(kZeros).first(end - offset_)));
  PENSTOCK_TRY(writer_->write(*file_, stored_->extent.offset + end, identity));
  return std::move(stored_);
}

}  // namespace penstock
