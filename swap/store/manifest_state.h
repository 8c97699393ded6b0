#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "swap/store/manifest_bytes.h"
#include "swap/store/manifest_record.h"

namespace penstock {

/// What a manifest says: the state of a store after its last whole batch.
struct ManifestState {
  std::uint64_t store = 0;
  std::uint64_t first_sequence = 0;  ///< of the first batch; every writer begins with a larger one
  std::uint64_t sequence = 0;        ///< of the last batch
  std::uint64_t valid_bytes = 0;     ///< up to there it is whole
  std::uint64_t torn_bytes = 0;      ///< behind that: what a crash left of a batch
  bool closed = false;               ///< the last process that wrote here ended in good order
  std::vector<DriveRecord> drives;
  std::map<std::string, StoreEntry> tensors;
  std::map<std::string, std::string> notes;

  /// All of it as records, for a manifest that begins anew.
  std::vector<ManifestRecord> records() const;
};

/// The name of the file of contents in every drive's directory. No manifest can name another.
std::string data_file_name(std::uint64_t store, std::uint32_t drive = 0);

/// Reads a manifest. Any bytes may be given: memory is that of the records, not of what the file
/// claims, and time is linear in its length. A last batch that is not whole is what a crash leaves;
/// it does not count. Errors, with `origin` and the offset: Fault::kCorrupt (damage in front of
/// something whole, or that contradicts itself), kInvalidArgument (no manifest), kUnsupported (a
/// newer penstock's), and those of reading.
Result<ManifestState> parse_manifest(const ManifestBytes& bytes, const std::string& origin);

}  // namespace penstock
