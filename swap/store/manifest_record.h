#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "swap/transfer/stored_tensor.h"

namespace penstock {

/// One drive of a durable store: a file in a directory.
struct DriveRecord {
  std::uint32_t index = 0;  ///< what StoredTensor::drive says; never used for another drive
  std::string directory;    ///< empty: the store's own, so that a store can be moved
  std::string file;         ///< its name there
  double weight = 1.0;
  std::optional<std::uint64_t> max_bytes;
  bool operator==(const DriveRecord&) const = default;
};

/// A tensor is no longer there.
struct RemovalRecord {
  std::string name;
};

/// A text that belongs to the store as a whole, not to a tensor: `__metadata__` of checkpoints.
struct NoteRecord {
  std::string key;
  std::string text;
};

/// A process began to write here, or ended in good order. The first is also a witness: what lies
/// before it was whole once, so that damage there cannot pass for a write that was cut off.
struct SessionRecord {
  enum class Event : std::uint8_t { kOpened, kClosed };
  Event event = Event::kOpened;
};

/// A StoreEntry says that a tensor is this from here on.
using ManifestRecord =
    std::variant<DriveRecord, StoreEntry, RemovalRecord, NoteRecord, SessionRecord>;

/// Appends one record as it stands in a manifest: its length, its kind, its fields.
void encode_record(const ManifestRecord& record, std::vector<std::byte>& target);

class WireReader;

/// The next record of `source`; nothing where it is damaged, of a kind that is not known, or
/// describes what cannot be. Pure; any bytes may be given.
std::optional<ManifestRecord> decode_record(WireReader& source);

}  // namespace penstock
