// A durable store's manifest, as it lies on a drive; and, since no fuzzer guesses a checksum, the
// same bytes as the records of a batch that is sealed well.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "alloc/check.h"
#include "swap/store/manifest_batch.h"
#include "swap/store/manifest_state.h"
#include "swap/store/wire.h"
#include "tests/fuzz/sentence.h"
#include "tests/store/manifest_in_memory.h"

namespace {

using namespace penstock;

std::vector<std::byte> encode(const ManifestRecord& record) {
  std::vector<std::byte> bytes;
  encode_record(record, bytes);
  return bytes;
}

std::vector<std::byte> manifest_of(std::uint64_t store, std::span<const ManifestRecord> records) {
  std::vector<std::byte> bytes = encode_head({ManifestHead::kVersion, store, 1});
  const std::vector<std::byte> batch = encode_batch(store, 1, records);
  bytes.insert(bytes.end(), batch.begin(), batch.end());
  return bytes;
}

// What a manifest says can be said again, by a manifest that begins anew.
void expect_state(std::span<const std::byte> bytes) {
  const Result<ManifestState> state = parse_manifest(bytes, "manifest");
  if (state.has_error()) {
    expect_sentence(state.error());
    return;
  }
  PENSTOCK_CHECK(state->valid_bytes + state->torn_bytes == bytes.size(), "{} + {} bytes of {}",
                 state->valid_bytes, state->torn_bytes, bytes.size());
  const std::vector<std::byte> anew = manifest_of(state->store, state->records());
  const Result<ManifestState> again = parse_manifest(anew, "manifest");
  PENSTOCK_CHECK(again.has_value(), "written anew: {}", again.error().message);
  PENSTOCK_CHECK(anew == manifest_of(again->store, again->records()), "{} tensors, written anew",
                 state->tensors.size());
}

// All records at the front of `bytes`; each says the same when it is read again.
std::vector<ManifestRecord> records_in(std::span<const std::byte> bytes) {
  std::vector<ManifestRecord> records;
  WireReader source(bytes);
  while (source.left() > 0) {
    std::optional<ManifestRecord> record = decode_record(source);
    if (!record) {
      break;
    }
    const std::vector<std::byte> encoded = encode(*record);
    WireReader encoded_source(encoded);
    const std::optional<ManifestRecord> again = decode_record(encoded_source);
    PENSTOCK_CHECK(again && encode(*again) == encoded, "record {} of kind {}", records.size(),
                   record->index());
    records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, bytes));
  expect_state(input);
  expect_state(manifest_of(1, records_in(input)));
  return 0;
}
