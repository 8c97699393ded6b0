#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "swap/store/manifest_record.h"

namespace penstock {

/// What a manifest says: the state of a store after its last whole batch.
struct ManifestState {
  std::uint64_t store = 0;
  std::uint64_t sequence = 0;     ///< of the last batch
  std::uint64_t valid_bytes = 0;  ///< up to there it is whole
  std::uint64_t torn_bytes = 0;   ///< behind that: what a crash left of a batch
  bool closed = false;            ///< the last process that wrote here ended in good order
  std::vector<DriveRecord> drives;
  std::map<std::string, StoreEntry> tensors;
  std::map<std::string, std::string> notes;

  /// All of it as records, for a manifest that begins anew.
  std::vector<ManifestRecord> records() const;
};

/// Reads a manifest from memory. Pure: any bytes may be given. A last batch that is not whole is
/// what a crash leaves; it does not count. Errors, with `origin` and the offset: Fault::kCorrupt
/// (damage in front of something whole, or that contradicts itself), kInvalidArgument (no
/// manifest), kUnsupported (a newer penstock's).
Result<ManifestState> parse_manifest(std::span<const std::byte> bytes, const std::string& origin);

}  // namespace penstock
