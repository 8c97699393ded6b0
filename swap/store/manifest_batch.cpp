#include "swap/store/manifest_batch.h"

#include "swap/store/wire.h"
#include "swap/transfer/checksum.h"

namespace penstock {
namespace {

constexpr std::uint64_t kHeadMagic = 0x4b434f54534e4550;   // "PENSTOCK", little-endian
constexpr std::uint64_t kBatchMagic = 0x4843544142534e50;  // "PNSBATCH"
constexpr std::size_t kSealBytes = 8;
constexpr std::size_t kHeadFieldsBytes = 8 + 4 + 4 + 8 + 8;
constexpr std::size_t kBatchFieldsBytes = 5 * 8;
static_assert(BatchHeader::kBytes == kBatchFieldsBytes + kSealBytes);

std::uint64_t seal_of(std::span<const std::byte> bytes) {
  return checksum(IntegrityLevel::kFull, bytes);
}

bool is_sealed(std::span<const std::byte> bytes, std::size_t fields_bytes) {
  return WireReader(bytes.subspan(fields_bytes)).take_u64() == seal_of(bytes.first(fields_bytes));
}

}  // namespace

std::vector<std::byte> encode_head(const ManifestHead& head) {
  std::vector<std::byte> block;
  WireWriter out(block);
  out.put_u64(kHeadMagic);
  out.put_u32(head.version);
  out.put_u32(0);
  out.put_u64(head.store);
  out.put_u64(head.first_sequence);
  out.put_u64(seal_of(block));
  block.resize(kBlockBytes);
  return block;
}

HeadIs decode_head(std::span<const std::byte> bytes, ManifestHead& head) {
  WireReader in(bytes);
  if (in.take_u64() != kHeadMagic) {
    return HeadIs::kForeign;
  }
  if (bytes.size() < kBlockBytes || !is_sealed(bytes, kHeadFieldsBytes)) {
    return HeadIs::kDamaged;
  }
  head.version = in.take_u32();
  in.take_u32();
  head.store = in.take_u64();
  head.first_sequence = in.take_u64();
  return HeadIs::kGood;
}

std::vector<std::byte> encode_batch(std::uint64_t store, std::uint64_t sequence,
                                    std::span<const ManifestRecord> records) {
  std::vector<std::byte> payload;
  for (const ManifestRecord& record : records) {
    encode_record(record, payload);
  }
  std::vector<std::byte> batch;
  batch.reserve(align_up(BatchHeader::kBytes + payload.size(), kBlockBytes));
  WireWriter out(batch);
  out.put_u64(kBatchMagic);
  out.put_u64(store);
  out.put_u64(sequence);
  out.put_u64(payload.size());
  out.put_u64(seal_of(payload));
  out.put_u64(seal_of(batch));
  batch.insert(batch.end(), payload.begin(), payload.end());
  batch.resize(align_up(batch.size(), kBlockBytes));
  return batch;
}

std::optional<BatchHeader> decode_batch_header(std::uint64_t store,
                                               std::span<const std::byte> bytes) {
  WireReader in(bytes);
  if (in.take_u64() != kBatchMagic || in.take_u64() != store ||
      bytes.size() < BatchHeader::kBytes || !is_sealed(bytes, kBatchFieldsBytes)) {
    return std::nullopt;
  }
  BatchHeader header;
  header.sequence = in.take_u64();
  header.records_bytes = in.take_u64();
  header.records_seal = in.take_u64();
  return header;
}

}  // namespace penstock
