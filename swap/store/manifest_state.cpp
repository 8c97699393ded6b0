#include "swap/store/manifest_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "swap/store/manifest_batch.h"
#include "swap/store/wire.h"

namespace penstock {
namespace {

Error damaged(const std::string& origin, std::uint64_t offset, std::string_view how) {
  return fault(Fault::kCorrupt, fmt::format("{} is damaged at offset {}: {}; restore it from a "
                                            "copy, or import into a new store",
                                            origin, offset, how));
}

Result<ManifestHead> read_head(std::span<const std::byte> bytes, const std::string& origin) {
  ManifestHead head;
  switch (decode_head(bytes, head)) {
    case HeadIs::kForeign:
      return fault(Fault::kInvalidArgument, fmt::format("{} is no manifest of penstock", origin));
    case HeadIs::kDamaged:
      return damaged(origin, 0, "its first block is not what was written");
    case HeadIs::kGood:
      break;
  }
  if (head.version > ManifestHead::kVersion) {
    return fault(Fault::kUnsupported,
                 fmt::format("{} was written by a newer penstock (format {}; this one knows {})",
                             origin, head.version, ManifestHead::kVersion));
  }
  return head;
}

// Replays records one by one; says what is wrong with one that cannot be.
class Replay {
 public:
  explicit Replay(ManifestState& state) : state_(state) {}

  std::optional<std::string> operator()(DriveRecord drive) {
    if (drive.index > state_.drives.size()) {
      return fmt::format("drive {} without a drive {}", drive.index, state_.drives.size());
    }
    if (drive.index == state_.drives.size()) {
      state_.drives.emplace_back();
    }
    state_.drives[drive.index] = std::move(drive);
    return std::nullopt;
  }
  std::optional<std::string> operator()(StoreEntry entry) {
    if (entry.stored.drive >= state_.drives.size()) {
      return fmt::format("tensor {} on drive {} of {}", excerpt(entry.info.name),
                         entry.stored.drive, state_.drives.size());
    }
    std::string name = entry.info.name;
    state_.tensors.insert_or_assign(std::move(name), std::move(entry));
    return std::nullopt;
  }
  std::optional<std::string> operator()(const RemovalRecord& removal) {
    state_.tensors.erase(removal.name);
    return std::nullopt;
  }
  std::optional<std::string> operator()(NoteRecord note) {
    state_.notes.insert_or_assign(std::move(note.key), std::move(note.text));
    return std::nullopt;
  }
  std::optional<std::string> operator()(const SessionRecord& session) {
    state_.closed = session.event == SessionRecord::Event::kClosed;
    return std::nullopt;
  }

 private:
  ManifestState& state_;
};

std::optional<std::string> replay(const FoundBatch& batch, ManifestState& state) {
  state.closed = false;
  WireReader records(batch.records);
  while (records.left() > 0) {
    std::optional<ManifestRecord> record = decode_record(records);
    if (!record) {
      return "a record that this penstock does not understand";
    }
    if (auto problem = std::visit(Replay(state), std::move(*record))) {
      return problem;
    }
  }
  state.sequence = batch.sequence;
  return std::nullopt;
}

// A batch is begun only when the one before it is safe. So whatever follows one that is not whole
// says that it was whole once.
bool continues(std::span<const std::byte> bytes, const ManifestState& state,
               std::uint64_t expected) {
  for (std::uint64_t at = state.valid_bytes; at < bytes.size(); at += kBlockBytes) {
    const std::optional<FoundBatch> batch = find_batch(state.store, bytes.subspan(at));
    if (batch && batch->sequence > expected) {
      return true;
    }
  }
  return false;
}

std::optional<std::string> find_overlap(const ManifestState& state) {
  std::vector<const StoreEntry*> entries;
  entries.reserve(state.tensors.size());
  for (const auto& [name, entry] : state.tensors) {
    entries.push_back(&entry);
  }
  const auto place = [](const StoreEntry* entry) {
    return std::pair(entry->stored.drive, entry->stored.extent.offset);
  };
  std::ranges::sort(entries, {}, place);
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const StoredTensor& before = entries[i - 1]->stored;
    const StoredTensor& after = entries[i]->stored;
    if (before.drive == after.drive && before.extent.end() > after.extent.offset) {
      return fmt::format("tensors {} and {} lie over each other",
                         excerpt(entries[i - 1]->info.name), excerpt(entries[i]->info.name));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<ManifestRecord> ManifestState::records() const {
  std::vector<ManifestRecord> all;
  all.reserve(drives.size() + notes.size() + tensors.size());
  all.insert(all.end(), drives.begin(), drives.end());
  for (const auto& [key, text] : notes) {
    all.emplace_back(NoteRecord{key, text});
  }
  for (const auto& [name, entry] : tensors) {
    all.emplace_back(entry);
  }
  return all;
}

Result<ManifestState> parse_manifest(std::span<const std::byte> bytes, const std::string& origin) {
  Result<ManifestHead> head = read_head(bytes, origin);
  if (head.has_error()) {
    return std::move(head).error();
  }
  ManifestState state;
  state.store = head->store;
  state.valid_bytes = kBlockBytes;
  std::uint64_t expected = head->first_sequence;
  while (state.valid_bytes < bytes.size()) {
    const std::optional<FoundBatch> batch =
        find_batch(state.store, bytes.subspan(state.valid_bytes));
    if (!batch || !batch->whole || batch->sequence != expected) {
      break;
    }
    if (const std::optional<std::string> problem = replay(*batch, state)) {
      return damaged(origin, state.valid_bytes, *problem);
    }
    state.valid_bytes += batch->bytes;
    ++expected;
  }
  // A manifest gets its name when its first batch is safe.
  if (expected == head->first_sequence || continues(bytes, state, expected)) {
    return damaged(origin, state.valid_bytes, "a batch of records is not what was written");
  }
  if (const std::optional<std::string> problem = find_overlap(state)) {
    return damaged(origin, 0, *problem);
  }
  state.torn_bytes = bytes.size() - state.valid_bytes;
  return state;
}

}  // namespace penstock
