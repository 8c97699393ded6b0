#include "swap/store/store_catalog.h"

#include <iterator>
#include <utility>

#include "alloc/check.h"

namespace penstock {

void StoreCatalog::restore(CatalogEntry entry) {
  std::string name = entry.info.name;
  set_published(name, std::move(entry));
}

void StoreCatalog::stage(CatalogEntry entry) {
  const std::string name = entry.info.name;
  set_change(name, {std::move(entry), std::nullopt});
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
  set_change(to, std::move(moved));
  set_change(from, {});
}

const StoreCatalog::Batch& StoreCatalog::begin_batch() {
  PENSTOCK_CHECK(batch_.empty(), "{} changes are being published already", batch_.size());
  Batch unsafe;
  for (auto& [name, change] : std::exchange(staged_, {})) {
    (change.unsafe ? unsafe : batch_).emplace(name, std::move(change));
  }
  superseded_bytes_ = 0;
  for (auto& [name, change] : unsafe) {
    set_change(name, std::move(change));
  }
  return batch_;
}

void StoreCatalog::take_unsafe(std::uint32_t drive, const Error& why) {
  for (auto at = batch_.begin(); at != batch_.end();) {
    const bool is_there = at->second.content && at->second.content->extent->drive == drive;
    if (is_there && !staged_.contains(at->first)) {
      set_change(at->first, {std::move(at->second.content), why});
    }
    at = is_there ? batch_.erase(at) : std::next(at);
  }
}

void StoreCatalog::end_published() {
  for (auto& [name, change] : std::exchange(batch_, {})) {
    set_published(name, std::move(change.content));
  }
  in_doubt_.clear();
}

void StoreCatalog::end_failed(bool in_doubt) {
  for (auto& [name, change] : std::exchange(batch_, {})) {
    if (in_doubt && change.content) {
      in_doubt_.push_back(change.content->extent);
    }
    if (!staged_.contains(name)) {
      set_change(name, std::move(change));
    }
  }
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
  if (staged_.insert_or_assign(name, std::move(change)).second) {
    superseded_bytes_ += published_bytes(name);
  }
}

void StoreCatalog::set_published(const std::string& name, std::optional<CatalogEntry> entry) {
  const bool superseded = staged_.contains(name);
  superseded_bytes_ -= superseded ? published_bytes(name) : 0;
  if (entry) {
    published_.insert_or_assign(name, std::move(*entry));
  } else {
    published_.erase(name);
  }
  superseded_bytes_ += superseded ? published_bytes(name) : 0;
}

std::uint64_t StoreCatalog::published_bytes(const std::string& name) const {
  const auto found = published_.find(name);
  return found == published_.end() ? 0 : found->second.extent->extent.bytes;
}

}  // namespace penstock
