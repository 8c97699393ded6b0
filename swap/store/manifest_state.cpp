#include "swap/store/manifest_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "swap/store/batch_reader.h"
#include "swap/store/manifest_batch.h"

namespace penstock {
namespace {

Error damaged(const std::string& origin, std::uint64_t offset, std::string_view how) {
  return fault(Fault::kCorrupt, fmt::format("{} is damaged at offset {}: {}; restore it from a "
                                            "copy, or import into a new store",
                                            origin, offset, how));
}

Result<ManifestHead> read_head(const ManifestBytes& source, const std::string& origin) {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::min<std::uint64_t>(source.size, kBlockBytes)));
  PENSTOCK_TRY(source.read(0, bytes));
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
    // Before the file's name had the drive's number, those of all drives were one.
    if (drive.file != data_file_name(state_.store, drive.index) &&
        drive.file != data_file_name(state_.store)) {
      return fmt::format("drive {} with the file {}, which is none of this store", drive.index,
                         excerpt(drive.file));
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

/// Returns what is wrong with the batch.
Result<std::optional<std::string>> replay(BatchReader& batch, ManifestState& state) {
  state.closed = false;
  while (!batch.at_end()) {
    Result<std::optional<ManifestRecord>> record = batch.next();
    PENSTOCK_TRY(record);
    if (!*record) {
      return std::optional<std::string>("a record that this penstock does not understand");
    }
    if (auto problem = std::visit(Replay(state), std::move(**record))) {
      return problem;
    }
  }
  return std::optional<std::string>();
}

// A batch is begun only when the one before it is safe. So the header of any later one says that
// what is not whole here was whole once. What that header promises need not be there, and is not
// looked at: a thousand headers that lie cost no more than a thousand zeros.
Result<bool> continues(const ManifestBytes& source, const ManifestState& state,
                       std::uint64_t expected) {
  constexpr std::uint64_t kSearchBytes = kMiB;
  std::vector<std::byte> window;
  for (std::uint64_t at = state.valid_bytes; at < source.size; at += window.size()) {
    window.resize(static_cast<std::size_t>(std::min(kSearchBytes, source.size - at)));
    PENSTOCK_TRY(source.read(at, window));
    for (std::size_t block = 0; block < window.size(); block += kBlockBytes) {
      const auto header = decode_batch_header(state.store, std::span(window).subspan(block));
      if (header && header->sequence > expected) {
        return true;
      }
    }
  }
  return false;
}

std::optional<std::string> find_twin(const ManifestState& state) {
  std::vector<std::string_view> directories;
  directories.reserve(state.drives.size());
  for (const DriveRecord& drive : state.drives) {
    directories.push_back(drive.directory);
  }
  std::ranges::sort(directories);
  const auto twin = std::ranges::adjacent_find(directories);
  if (twin == directories.end()) {
    return std::nullopt;
  }
  return fmt::format("two drives in the directory {}", twin->empty() ? "." : excerpt(*twin));
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

/// Replays the batch that begins where the valid bytes end. Returns its length, 0 if there is no
/// whole batch of that number.
Result<std::uint64_t> take_batch(const ManifestBytes& source, std::uint64_t expected,
                                 const std::string& origin, ManifestState& state) {
  std::array<std::byte, BatchHeader::kBytes> bytes{};
  if (source.size - state.valid_bytes < bytes.size()) {
    return std::uint64_t{0};
  }
  PENSTOCK_TRY(source.read(state.valid_bytes, bytes));
  const std::optional<BatchHeader> header = decode_batch_header(state.store, bytes);
  if (!header || header->sequence != expected) {
    return std::uint64_t{0};
  }
  BatchReader batch(source, state.valid_bytes, *header);
  const Result<bool> whole = batch.is_whole();
  PENSTOCK_TRY(whole);
  if (!*whole) {
    return std::uint64_t{0};
  }
  Result<std::optional<std::string>> problem = replay(batch, state);
  PENSTOCK_TRY(problem);
  if (*problem) {
    return damaged(origin, state.valid_bytes, **problem);
  }
  state.sequence = expected;
  return header->batch_bytes();
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

std::string data_file_name(std::uint64_t store, std::uint32_t drive) {
  return drive == 0 ? fmt::format("tensors-{:016x}.data", store)
                    : fmt::format("tensors-{:016x}-{}.data", store, drive);
}

Result<ManifestState> parse_manifest(const ManifestBytes& bytes, const std::string& origin) {
  Result<ManifestHead> head = read_head(bytes, origin);
  PENSTOCK_TRY(head);
  ManifestState state;
  state.store = head->store;
  state.first_sequence = head->first_sequence;
  state.valid_bytes = kBlockBytes;
  std::uint64_t expected = head->first_sequence;
  for (;; ++expected) {
    Result<std::uint64_t> batch = take_batch(bytes, expected, origin, state);
    PENSTOCK_TRY(batch);
    if (*batch == 0) {
      break;
    }
    state.valid_bytes += *batch;
  }
  const Result<bool> more = continues(bytes, state, expected);
  PENSTOCK_TRY(more);
  // A manifest gets its name when its first batch is safe.
  if (expected == head->first_sequence || *more) {
    return damaged(origin, state.valid_bytes, "a batch of records is not what was written");
  }
  for (const auto& problem : {find_twin(state), find_overlap(state)}) {
    if (problem) {
      return damaged(origin, 0, *problem);
    }
  }
  state.torn_bytes = bytes.size - state.valid_bytes;
  return state;
}

}  // namespace penstock
