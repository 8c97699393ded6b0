#include "swap/store/store_catalog.h"

#include <algorithm>
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
  Batch gone;
  gone.try_emplace(from);
  set_change(to, std::move(moved));
  if (staged != staged_.end()) {  // from here on nothing needs memory
    set_change(from, {});
  } else {
    take_back(gone.extract(gone.begin()));
  }
}

/// By the numbers of their tensors, which names do not change.
StoreCatalog::ByNumber StoreCatalog::published_by_number() const {
  ByNumber by_number;
  by_number.reserve(published_.size());
  for (const auto& [name, entry] : published_) {
    by_number.emplace(entry.extent->identity.tensor, &entry);
  }
  return by_number;
}

/// What the manifest has of that entry's tensor, under whatever name; null: nothing.
const CatalogEntry* StoreCatalog::last_safe(const CatalogEntry& entry,
                                            const ByNumber& by_number) const {
  const std::uint64_t tensor = entry.extent->identity.tensor;
  const auto same = published_.find(entry.info.name);
  if (same != published_.end() && same->second.extent->identity.tensor == tensor) {
    return &same->second;
  }
  const auto found = by_number.find(tensor);
  return found == by_number.end() ? nullptr : found->second;
}

/// What cannot be published stays staged. In its place the batch has the tensor's last safe
/// content, where the manifest has that under another name; where it has none, what the manifest
/// has under this name stays, unless that is a tensor which the batch has under another.
void StoreCatalog::hold_back_unsafe(const ByNumber& by_number) {
  for (auto at = batch_.begin(); at != batch_.end();) {
    auto& [name, change] = *at;
    if (!change.unsafe) {
      ++at;
      continue;
    }
    held_back_.emplace_back(name, *change.unsafe);
    if (!staged_.contains(name)) {
      set_change(name, change);
    }
    const CatalogEntry* const safe = last_safe(*change.content, by_number);
    if (safe == nullptr || safe->info.name == name) {
      at = batch_.erase(at);
      continue;
    }
    CatalogEntry moved = *safe;
    moved.info.name = name;
    change = {std::move(moved)};
    ++at;
  }
  for (const auto& [name, change] : batch_) {
    if (const auto* safe = change.content ? last_safe(*change.content, by_number) : nullptr) {
      batch_.try_emplace(safe->info.name);  // a removal, where there is no change
    }
  }
}

const StoreCatalog::Batch& StoreCatalog::begin_batch() {
  if (!batch_.empty()) {  // a publish ran out of memory, at an unknown point
    end_failed(true);
  }
  held_back_.clear();
  batch_ = std::exchange(staged_, {});
  superseded_bytes_ = 0;
  staged_record_bytes_ = 0;
  const bool is_safe = std::ranges::none_of(
      batch_, [](const auto& entry) { return entry.second.unsafe.has_value(); });
  if (!is_safe) {
    hold_back_unsafe(published_by_number());
  }
  batch_record_bytes_ = record_bytes_of(batch_);
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
  const ByNumber by_number = published_by_number();
  for (Batch* const changes : {&batch_, &staged_}) {
    for (auto& [name, change] : *changes) {
      if (!change.content || change.content->extent->drive != drive || change.unsafe) {
        continue;
      }
      const CatalogEntry* const safe = last_safe(*change.content, by_number);
      if (safe != nullptr && safe->extent == change.content->extent) {
        continue;  // it has another name only
      }
      change.unsafe = why;
    }
  }
  hold_back_unsafe(by_number);
  batch_record_bytes_ = record_bytes_of(batch_);
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

bool StoreCatalog::has_overtaken() const {
  return std::ranges::any_of(held_back_, [this](const auto& entry) {
    const auto newest = staged_.find(entry.first);
    return newest == staged_.end() || !newest->second.unsafe;
  });
}

void StoreCatalog::set_change(const std::string& name, Change change) {
  std::uint64_t replaced_bytes = 0;
  if (const auto staged = staged_.find(name); staged != staged_.end()) {
    replaced_bytes = record_bytes_of(name, staged->second);
  }
  const std::uint64_t bytes = record_bytes_of(name, change);
  if (staged_.insert_or_assign(name, std::move(change)).second) {
    superseded_bytes_ += published_bytes(name);
  }
  staged_record_bytes_ = staged_record_bytes_ + bytes - replaced_bytes;
}

/// A change of the batch is staged again, where no newer one is. Needs no memory.
void StoreCatalog::take_back(Batch::node_type change) noexcept {
  if (staged_.contains(change.key())) {
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
