#include "swap/store/store_catalog.h"

#include <iterator>
#include <new>
#include <utility>

namespace penstock {
namespace {

// A record's fields beside name and shape, generously.
constexpr std::uint64_t kRecordBytes = 128;

std::uint64_t record_bytes_of(const std::string& name, const StoreCatalog::Change& change) {
  return change.content ? StoreCatalog::record_bytes(change.content->info)
                        : kRecordBytes + name.size();
}

std::uint64_t record_bytes_of(const StoreCatalog::Batch& changes) {
  std::uint64_t bytes = 0;
  for (const auto& [name, change] : changes) {
    bytes += record_bytes_of(name, change);
  }
  return bytes;
}

}  // namespace

void StoreCatalog::restore(CatalogEntry entry) {
  const std::string name = entry.info.name;
  std::optional<CatalogEntry> published = std::move(entry);
  set_published(name, published);
}

void StoreCatalog::stage(CatalogEntry entry) {
  const std::string name = entry.info.name;
  const StoredTensor& stored = *entry.extent;
  std::optional<Error> unsafe;
  if (stored.failed_syncs < failed_syncs(stored.drive)) {
    unsafe = failed_syncs_.at(stored.drive).last;
  }
  set_change(name, {std::move(entry), std::move(unsafe)});
}

void StoreCatalog::stage_removal(const std::string& name) {
  set_change(name, {});
}

void StoreCatalog::stage_name(const std::string& from, const std::string& to) {
  const CatalogEntry* const newest = find(from);
  if (newest == nullptr) {
    return;  // it has no content yet
  }
  const auto staged = staged_.find(from);
  Change moved{*newest, staged == staged_.end() ? std::nullopt : staged->second.unsafe};
  moved.content->info.name = to;
  std::optional<Change> before_from = staged_change(from);
  std::optional<Change> before_to = staged_change(to);
  const std::uint64_t before_bytes = superseded_bytes_;
  const std::uint64_t before_record_bytes = staged_record_bytes_;
  try {
    set_change(to, std::move(moved));
    set_change(from, {});
    std::vector<std::pair<Change*, std::string>> moves;
    for (auto& [name, change] : staged_) {
      // What the manifest has under `from` may be a tensor that has moved on before.
      if (change.moved_to == from || (name == from && !change.moved_to)) {
        moves.emplace_back(&change, to);
      }
    }
    for (auto& [change, name] : moves) {
      change->moved_to = std::move(name);
    }
  } catch (const std::bad_alloc&) {
    restore_change(from, std::move(before_from));
    restore_change(to, std::move(before_to));
    superseded_bytes_ = before_bytes;
    staged_record_bytes_ = before_record_bytes;
    throw;
  }
}

std::optional<StoreCatalog::Change> StoreCatalog::staged_change(const std::string& name) const {
  const auto staged = staged_.find(name);
  return staged == staged_.end() ? std::nullopt : std::optional(staged->second);
}

void StoreCatalog::restore_change(const std::string& name, std::optional<Change> before) noexcept {
  const auto staged = staged_.find(name);
  if (staged == staged_.end()) {
    return;
  }
  if (before) {
    staged->second = std::move(*before);
  } else {
    staged_.erase(staged);
  }
}

/// Moves what cannot be published from one to the other, and what may only be published with it.
void StoreCatalog::separate_unsafe(Batch& changes, Batch& unsafe) {
  std::size_t before = 0;
  do {
    before = unsafe.size();
    for (auto at = changes.begin(); at != changes.end();) {
      const auto& [name, change] = *at;
      const bool waits = change.moved_to && unsafe.contains(*change.moved_to);
      if (change.unsafe || waits) {
        unsafe.insert(changes.extract(at++));
      } else {
        ++at;
      }
    }
  } while (unsafe.size() != before);
}

const StoreCatalog::Batch& StoreCatalog::begin_batch() {
  if (!batch_.empty()) {  // a publish ran out of memory, at an unknown point
    end_failed(true);
  }
  batch_ = std::exchange(staged_, {});
  superseded_bytes_ = 0;
  staged_record_bytes_ = 0;
  Batch unsafe;
  separate_unsafe(batch_, unsafe);
  batch_record_bytes_ = record_bytes_of(batch_);
  for (auto& [name, change] : unsafe) {
    set_change(name, std::move(change));
  }
  return batch_;
}

std::uint64_t StoreCatalog::failed_syncs(std::uint32_t drive) const {
  const auto failed = failed_syncs_.find(drive);
  return failed == failed_syncs_.end() ? 0 : failed->second.count;
}

void StoreCatalog::take_unsafe(std::uint32_t drive, const Error& why) {
  FailedSyncs& failed = failed_syncs_[drive];
  ++failed.count;
  failed.last = why;
  for (Batch* const changes : {&batch_, &staged_}) {
    for (auto& [name, change] : *changes) {
      if (change.content && change.content->extent->drive == drive && !change.unsafe) {
        change.unsafe = why;
      }
    }
  }
  Batch unsafe;
  separate_unsafe(batch_, unsafe);
  batch_record_bytes_ = record_bytes_of(batch_);
  for (auto& [name, change] : unsafe) {
    if (const auto newer = staged_.find(name); newer == staged_.end()) {
      set_change(name, std::move(change));
    } else if (!newer->second.moved_to) {
      newer->second.moved_to = std::move(change.moved_to);
    }
  }
}

void StoreCatalog::end_published() {
  while (!batch_.empty()) {  // one after the other: what throws leaves the rest as it is
    const auto first = batch_.begin();
    set_published(first->first, first->second.content);
    batch_.erase(first);
  }
  batch_record_bytes_ = 0;
  in_doubt_.clear();
}

void StoreCatalog::end_failed(bool in_doubt) {
  if (in_doubt) {
    for (const auto& [name, change] : batch_) {
      if (change.content) {
        in_doubt_.push_back(change.content->extent);
      }
    }
  }
  while (!batch_.empty()) {
    take_back(batch_.extract(batch_.begin()));
  }
  batch_record_bytes_ = 0;
}

std::map<std::string, CatalogEntry> StoreCatalog::newest() const {
  std::map<std::string, CatalogEntry> entries = published_;
  for (const Batch* changes : {&batch_, &staged_}) {
    for (const auto& [name, change] : *changes) {
      if (change.content) {
        entries.insert_or_assign(name, *change.content);
      } else {
        entries.erase(name);
      }
    }
  }
  return entries;
}

const CatalogEntry* StoreCatalog::find(const std::string& name) const {
  for (const Batch* changes : {&staged_, &batch_}) {
    if (const auto found = changes->find(name); found != changes->end()) {
      return found->second.content ? &*found->second.content : nullptr;
    }
  }
  const auto found = published_.find(name);
  return found == published_.end() ? nullptr : &found->second;
}

std::vector<ManifestRecord> StoreCatalog::published_records() const {
  std::vector<ManifestRecord> records;
  for (const auto& [name, entry] : published_) {
    if (!batch_.contains(name)) {
      records.emplace_back(entry.record());
    }
  }
  for (const auto& [name, change] : batch_) {
    if (change.content) {
      records.emplace_back(change.content->record());
    }
  }
  return records;
}

std::vector<std::pair<std::string, Error>> StoreCatalog::unsafe() const {
  std::vector<std::pair<std::string, Error>> names;
  for (const auto& [name, change] : staged_) {
    if (change.unsafe) {
      names.emplace_back(name, *change.unsafe);
    }
  }
  return names;
}

void StoreCatalog::set_change(const std::string& name, Change change) {
  std::uint64_t replaced_bytes = 0;
  if (const auto staged = staged_.find(name); staged != staged_.end()) {
    replaced_bytes = record_bytes_of(name, staged->second);
    if (!change.moved_to) {
      change.moved_to = staged->second.moved_to;
    }
  }
  const std::uint64_t bytes = record_bytes_of(name, change);
  if (staged_.insert_or_assign(name, std::move(change)).second) {
    superseded_bytes_ += published_bytes(name);
  }
  staged_record_bytes_ = staged_record_bytes_ + bytes - replaced_bytes;
}

/// A change of the batch is staged again, where no newer one is. Needs no memory.
void StoreCatalog::take_back(Batch::node_type change) noexcept {
  if (const auto newer = staged_.find(change.key()); newer != staged_.end()) {
    if (!newer->second.moved_to) {
      newer->second.moved_to = std::move(change.mapped().moved_to);
    }
    return;
  }
  const auto staged = staged_.insert(std::move(change)).position;
  superseded_bytes_ += published_bytes(staged->first);
  staged_record_bytes_ += record_bytes_of(staged->first, staged->second);
}

/// Takes `entry`; where it throws, it is as it was.
void StoreCatalog::set_published(const std::string& name, std::optional<CatalogEntry>& entry) {
  const bool superseded = staged_.contains(name);
  const std::uint64_t before = superseded ? published_bytes(name) : 0;
  if (entry) {
    published_.insert_or_assign(name, std::move(*entry));
  } else {
    published_.erase(name);
  }
  superseded_bytes_ -= before;
  superseded_bytes_ += superseded ? published_bytes(name) : 0;
}

std::uint64_t StoreCatalog::published_bytes(const std::string& name) const {
  const auto found = published_.find(name);
  return found == published_.end() ? 0 : found->second.extent->extent.bytes;
}

std::uint64_t StoreCatalog::record_bytes(const TensorInfo& info) {
  return kRecordBytes + info.name.size() + info.shape.size() * sizeof(std::uint64_t);
}

}  // namespace penstock
