#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/mutex.h"
#include "swap/store/durable_store_options.h"
#include "swap/store/manifest.h"
#include "swap/store/store_catalog.h"
#include "swap/store/store_home.h"
#include "swap/store/swap_store.h"

namespace penstock {

/// A store whose published contents outlive the process and survive a crash at any instant: a
/// directory with a lock, a manifest that says what lies where, and one file of contents a drive.
///
/// Publishing: contents are whole on their drives -> their files are synced -> one batch is
/// appended to the manifest and synced -> only then the extents that it supersedes are free again.
/// Many contents a publish: when asked to, and when superseded extents demand it. Opening reads the
/// manifest only. Thread-safe.
class DurableStore final : public SwapStore {
 public:
  /// Errors: EBUSY naming who uses it; ENOENT for kRead where there is none; what is wrong with the
  /// manifest; a new drive that cannot be; for kWrite, none that can. A known drive that cannot be
  /// opened is no error else: drive_states() says why, and check_readable() of what lies there.
  static Result<std::unique_ptr<DurableStore>> open(DurableStoreOptions options);

  Result<StoredTensor> reserve(std::uint64_t tensor, std::uint64_t generation, std::uint64_t bytes,
                               std::span<const std::uint32_t> avoid = {}) override;
  bool is_durable() const noexcept override { return true; }
  Result<void> stage(const TensorInfo& info, const HeldExtent& content) override;
  void stage_removal(const std::string& name) override;
  void stage_name(const std::string& from, const std::string& to) override;
  /// A note belongs to the store, not to a tensor.
  void stage_note(const std::string& key, const std::string& text);
  /// Errors also while a content whose drive could not be synced waits to be put again.
  Result<void> publish() override;
  Result<void> close() override;
  std::shared_ptr<void> hold_use() override;
  StoreCounters counters() const override;

  /// The newest contents in natural order of their names, staged ones included.
  std::vector<CatalogEntry> contents() const;
  std::optional<CatalogEntry> find(const std::string& name) const;
  std::map<std::string, std::string> notes() const;
  /// Whether the user before this one ended in good order. What that had not published is not here.
  bool was_closed() const noexcept { return was_closed_; }
  const std::string& directory() const noexcept { return home_.directory(); }

 private:
  /// Of the store by this process: it ends with its last holder, once the store is closed.
  struct Use {
    explicit Use(DurableStore& of) : store(of) {}
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    DurableStore& store;
    bool is_closed = false;
  };
  struct Notes {
    std::map<std::string, std::string> all;
    std::vector<ManifestRecord> unpublished;
  };

  explicit DurableStore(DurableStoreOptions options);
  Result<void> open_drives(const ManifestState& state);
  void restore(const ManifestState& state);
  std::vector<ManifestRecord> all_records() const PENSTOCK_REQUIRES(mutex_);
  Result<StoredTensor> reserve_space(std::uint64_t tensor, std::uint64_t generation,
                                     std::uint64_t bytes, std::span<const std::uint32_t> avoid);
  Result<void> trim();
  bool has_spare_for_records() PENSTOCK_REQUIRES(mutex_);
  void sync_batch() PENSTOCK_REQUIRES(publish_mutex_);
  Result<void> publish_batch() PENSTOCK_REQUIRES(publish_mutex_);

  StoreHome home_;
  bool was_closed_ = false;  // not changed once open

  Mutex publish_mutex_;  // one publish at a time; before mutex_
  std::unique_ptr<Manifest> manifest_;

  mutable Mutex mutex_;  // the rest
  std::vector<DriveRecord> drive_records_ PENSTOCK_GUARDED_BY(mutex_);
  Notes notes_ PENSTOCK_GUARDED_BY(mutex_);
  StoreCatalog catalog_ PENSTOCK_GUARDED_BY(mutex_);
  std::uint64_t publish_at_bytes_ PENSTOCK_GUARDED_BY(mutex_);  // superseded
  StoreCounters counters_ PENSTOCK_GUARDED_BY(mutex_);
  bool changes_ PENSTOCK_GUARDED_BY(mutex_) = false;      // space was asked for
  std::shared_ptr<Use> use_ PENSTOCK_GUARDED_BY(mutex_);  // until close()
};

}  // namespace penstock
