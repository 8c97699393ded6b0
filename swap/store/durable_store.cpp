#include "swap/store/durable_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "swap/plan/natural_order.h"

namespace penstock {
namespace {

// Superseded contents are given up at the latest when they take this much of the drives.
constexpr std::uint64_t kSupersededMax = 512 * kMiB;
// What is kept for the journal beside the records that wait: a publish of some hundred tensors.
constexpr std::uint64_t kSpareBytes = 64 * kKiB;
// For the records of contents that have their space and are not staged yet.
constexpr std::uint64_t kAheadBytes = 64 * kKiB;
constexpr std::size_t kNamesInError = 5;

Error unsafe_error(const std::vector<std::pair<std::string, Error>>& unsafe) {
  std::vector<std::string> names;
  for (const auto& [name, why] : unsafe) {
    if (names.size() == kNamesInError) {
      names.emplace_back("…");
      break;
    }
    names.push_back(name);
  }
  Error error = unsafe.front().second;
  error.message = fmt::format(
      "the last contents of {} ({}) are not safe, and not published: {}; "
      "put them again, they go to another path where there is one",
      counted(unsafe.size(), "tensor"), fmt::join(names, ", "), error.message);
  error.tensor = unsafe.front().first;
  return error;
}

Error not_writable(const std::string& directory) {
  return fault(Fault::kClosed,
               fmt::format("the store {} is closed, or was opened to be read", directory));
}

}  // namespace

DurableStore::DurableStore(DurableStoreOptions options)
    : SwapStore(*options.system),
      home_(std::move(options)),
      publish_at_bytes_(kSupersededMax),
      use_(std::make_shared<Use>(*this)) {}

Result<std::unique_ptr<DurableStore>> DurableStore::open(DurableStoreOptions options) {
  if (options.directory.empty()) {
    return no_paths();
  }
  std::unique_ptr<DurableStore> store(new DurableStore(std::move(options)));
  Result<ManifestState> state = store->home_.take();
  PENSTOCK_TRY(state);
  const bool writes = store->home_.writes();
  PENSTOCK_TRY(writes ? store->home_.add_named_drives(*state) : Result<void>());
  PENSTOCK_TRY(store->open_drives(*state));
  if (writes) {
    Result<std::unique_ptr<Manifest>> manifest = store->home_.begin_manifest(*state);
    PENSTOCK_TRY(manifest);
    store->manifest_ = std::move(manifest).value();
  }
  store->restore(*state);
  return store;
}

Result<void> DurableStore::open_drives(const ManifestState& state) {
  std::vector<std::vector<Extent>> taken(state.drives.size());
  for (const auto& [name, entry] : state.tensors) {
    taken[entry.stored.drive].push_back(entry.stored.extent);
  }
  bool takes_new = false;
  std::optional<Error> missing;
  for (const DriveRecord& drive : state.drives) {
    std::vector<Extent>& extents = taken[drive.index];
    std::ranges::sort(extents, {}, &Extent::offset);
    const PathConfig config{drive.directory, drive.weight, drive.max_bytes};
    Result<StoreHome::OpenDrive> opened =
        home_.open_drive(drive, extents.empty() ? 0 : extents.back().end());
    if (opened.has_value()) {
      drives().add(std::move(opened->file), config, opened->role, extents);
      takes_new = takes_new || opened->role == StoreDrives::Role::kGrows;
    } else if (!home_.knows(drive)) {
      return std::move(opened).error();
    } else {
      Error why = std::move(opened).error();
      std::string path = why.path;
      missing = why;
      drives().add_missing(std::move(path), config, std::move(why));
    }
  }
  if (home_.writes() && !takes_new && missing) {
    return std::move(*missing);
  }
  return {};
}

void DurableStore::restore(const ManifestState& state) {
  const MutexLock lock(mutex_);
  was_closed_ = state.closed;
  drive_records_ = state.drives;
  notes_.all = state.notes;
  std::uint64_t last_tensor = 0;
  for (const auto& [name, entry] : state.tensors) {
    last_tensor = std::max(last_tensor, entry.stored.identity.tensor);
    catalog_.restore({entry.info, hold(entry.stored)});
  }
  number_tensors_after(last_tensor);
}

Result<StoredTensor> DurableStore::reserve(std::uint64_t tensor, std::uint64_t generation,
                                           std::uint64_t bytes,
                                           std::span<const std::uint32_t> avoid) {
  MutexLock lock(mutex_);
  changes_ = true;
  const std::uint64_t superseded = catalog_.superseded_bytes();
  const bool due = superseded > publish_at_bytes_ || !has_spare_for_records();
  lock.unlock();
  if (due) {
    // This publish only frees space, of contents or of the spare. Its error is ignored: a caller
    // that needs safe contents publishes itself and gets the error.
    const bool published = publish().has_value();
    lock.lock();
    publish_at_bytes_ = kSupersededMax + (published ? 0 : superseded);
    lock.unlock();
  }
  Result<StoredTensor> reserved = reserve_space(tensor, generation, bytes, avoid);
  if (reserved.has_value() || !reserved.error().is_full() || superseded == 0) {
    return reserved;
  }
  if (publish().has_error()) {
    return reserved;
  }
  return reserve_space(tensor, generation, bytes, avoid);
}

/// Nothing is written there yet, so no sync that has failed by now was to make it safe.
Result<StoredTensor> DurableStore::reserve_space(std::uint64_t tensor, std::uint64_t generation,
                                                 std::uint64_t bytes,
                                                 std::span<const std::uint32_t> avoid) {
  Result<StoredTensor> reserved = SwapStore::reserve(tensor, generation, bytes, avoid);
  if (reserved.has_value()) {
    const MutexLock lock(mutex_);
    reserved->failed_syncs = catalog_.failed_syncs(reserved->drive);
  }
  return reserved;
}

/// False: the records that wait fill the spare, and a publish would empty it. To be found out
/// before a content is written, since stage() comes behind a write, on a thread that must not wait.
bool DurableStore::has_spare_for_records() {
  const std::uint64_t waiting = catalog_.waiting_record_bytes();
  return !manifest_ || waiting == 0 ||
         manifest_->spare().keep(kSpareBytes + waiting + kAheadBytes).has_value();
}

Result<void> DurableStore::stage(const TensorInfo& info, const HeldExtent& content) {
  const MutexLock lock(mutex_);
  if (!manifest_) {
    return not_writable(directory());
  }
  const std::uint64_t waiting = catalog_.waiting_record_bytes() + StoreCatalog::record_bytes(info);
  PENSTOCK_TRY(manifest_->spare().keep(kSpareBytes + waiting));
  catalog_.stage({info, content});
  return {};
}

void DurableStore::stage_removal(const std::string& name) {
  const MutexLock lock(mutex_);
  catalog_.stage_removal(name);
}

void DurableStore::stage_name(const std::string& from, const std::string& to) {
  const MutexLock lock(mutex_);
  catalog_.stage_name(from, to);
}

void DurableStore::stage_note(const std::string& key, const std::string& text) {
  const MutexLock lock(mutex_);
  if (const auto known = notes_.all.find(key); known != notes_.all.end() && known->second == text) {
    return;
  }
  notes_.all[key] = text;
  notes_.unpublished.emplace_back(NoteRecord{key, text});
}

Result<void> DurableStore::publish() {
  const MutexLock publishing(publish_mutex_);
  if (!manifest_) {
    return not_writable(directory());
  }
  sync_batch();
  PENSTOCK_TRY(publish_batch());
  MutexLock lock(mutex_);
  const bool is_overtaken = catalog_.has_overtaken();
  lock.unlock();
  if (is_overtaken) {
    sync_batch();
    PENSTOCK_TRY(publish_batch());
  }
  PENSTOCK_TRY(drives().check_whole());
  lock.lock();
  const auto& held_back = catalog_.held_back();
  return held_back.empty() ? Result<void>() : unsafe_error(held_back);
}

/// The first half of a publish: what cannot be made safe goes back.
void DurableStore::sync_batch() {
  std::set<std::uint32_t> touched;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, change] : catalog_.begin_batch()) {
      if (change.content) {
        touched.insert(change.content->extent->drive);
      }
    }
  }
  for (const std::uint32_t drive : touched) {
    if (drives().check_present(drive, {}).has_error()) {
      continue;  // a tensor there has another name now
    }
    if (const Result<void> synced = drives().sync(drive); synced.has_error()) {
      drives().note_failure(drive);
      MutexLock lock(mutex_);
      catalog_.take_unsafe(drive, synced.error());
      const bool is_named = !catalog_.held_back().empty();  // what is lost, by the error
      lock.unlock();
      if (is_named) {
        drives().lengthen(drive);
      }
    }
  }
}

/// The second half of a publish: the contents are safe, the manifest does not name them yet.
Result<void> DurableStore::publish_batch() {
  MutexLock lock(mutex_);
  std::vector<ManifestRecord> changes = std::exchange(notes_.unpublished, {});
  const std::vector<ManifestRecord> notes = changes;
  for (const auto& [name, change] : catalog_.batch()) {
    if (change.content) {
      changes.emplace_back(change.content->record());
    } else {
      changes.emplace_back(RemovalRecord{name});
    }
  }
  lock.unlock();
  if (changes.empty() && manifest_->is_as_written()) {
    return {};
  }
  const Result<void> published = manifest_->publish(changes, [this] {
    const MutexLock for_all(mutex_);
    return all_records();
  });
  lock.lock();
  counters_.journal_bytes = manifest_->written_bytes();
  if (published.has_error()) {
    catalog_.end_failed(manifest_->in_doubt());
    notes_.unpublished.insert(notes_.unpublished.begin(), notes.begin(), notes.end());
    return published;
  }
  ++counters_.publishes;
  catalog_.end_published();
  // Where it was used and the drive is still full, the next content that is staged says so.
  const std::uint64_t needed = kSpareBytes + catalog_.waiting_record_bytes();
  (void)manifest_->spare().keep(needed);
  (void)manifest_->spare().shrink(needed);
  return {};
}

/// What a manifest that begins anew says.
std::vector<ManifestRecord> DurableStore::all_records() const {
  std::vector<ManifestRecord> records(drive_records_.begin(), drive_records_.end());
  for (const auto& [key, text] : notes_.all) {
    records.emplace_back(NoteRecord{key, text});
  }
  std::ranges::move(catalog_.published_records(), std::back_inserter(records));
  records.emplace_back(SessionRecord{SessionRecord::Event::kOpened});
  return records;
}

/// Not where nothing was changed: behind what an older manifest knows, where one was restored by
/// mistake, a newer one's contents lie.
Result<void> DurableStore::trim() {
  MutexLock lock(mutex_);
  const bool changed = changes_ || counters_.publishes > 0;
  lock.unlock();
  return changed ? drives().trim() : Result<void>();
}

Result<void> DurableStore::close() {
  if (!home_.writes()) {
    return {};
  }
  PENSTOCK_TRY(publish());
  PENSTOCK_TRY(trim());
  const MutexLock publishing(publish_mutex_);
  if (!manifest_) {
    return not_writable(directory());
  }
  const std::vector<ManifestRecord> end{SessionRecord{SessionRecord::Event::kClosed}};
  PENSTOCK_TRY(manifest_->publish(end, [this, &end] {
    const MutexLock lock(mutex_);
    std::vector<ManifestRecord> all = all_records();
    all.push_back(end.front());
    return all;
  }));
  manifest_->leave_spare();
  const MutexLock lock(mutex_);
  counters_.journal_bytes = manifest_->written_bytes();
  manifest_.reset();
  use_->is_closed = true;
  use_.reset();
  return {};
}

std::shared_ptr<void> DurableStore::hold_use() {
  const MutexLock lock(mutex_);
  return use_;
}

/// Contents that are leased out keep the files open. An unlock that fails leaves others waiting,
/// and harms nothing.
DurableStore::Use::~Use() {
  if (is_closed) {
    (void)store.drives().unlock();
    store.home_.leave();
  }
}

StoreCounters DurableStore::counters() const {
  const MutexLock lock(mutex_);
  return counters_;
}

std::vector<CatalogEntry> DurableStore::contents() const {
  std::vector<CatalogEntry> entries;
  {
    const MutexLock lock(mutex_);
    for (auto& [name, entry] : catalog_.newest()) {
      entries.push_back(std::move(entry));
    }
  }
  std::ranges::sort(entries, [](const CatalogEntry& a, const CatalogEntry& b) {
    return natural_less(a.info.name, b.info.name);
  });
  return entries;
}

std::optional<CatalogEntry> DurableStore::find(const std::string& name) const {
  const MutexLock lock(mutex_);
  const CatalogEntry* const entry = catalog_.find(name);
  return entry == nullptr ? std::nullopt : std::optional(*entry);
}

std::map<std::string, std::string> DurableStore::notes() const {
  const MutexLock lock(mutex_);
  return notes_.all;
}

}  // namespace penstock
