#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/result.h"
#include "swap/store/manifest_record.h"
#include "swap/transfer/stored_tensor.h"

namespace penstock {

/// A content and the hold on its place.
struct CatalogEntry {
  TensorInfo info;
  HeldExtent extent;

  StoreEntry record() const { return {info, *extent}; }
};

/// What a durable store knows of its tensors: which contents the manifest on the drive names, and
/// which changes are to come. Holds every extent that a crash could bring back, so that none is
/// written over. Pure bookkeeping; not thread-safe, its owner holds the lock.
class StoreCatalog {
 public:
  /// One name's next state; without content: it is gone.
  struct Change {
    std::optional<CatalogEntry> content;
    std::optional<Error> unsafe = {};  ///< its drive could not make it safe: never published so
  };
  /// Changes that are being published together.
  using Batch = std::map<std::string, Change>;

  /// What the manifest names when the store is opened.
  void restore(CatalogEntry entry);

  /// Unsafe from the beginning, where a sync of its drive has failed since its space was taken.
  void stage(CatalogEntry entry);
  void stage_removal(const std::string& name);
  /// Where it throws std::bad_alloc, nothing has changed.
  void stage_name(const std::string& from, const std::string& to);

  /// Takes all changes that may be published; one batch at a time. The batch stays as it is until
  /// it is ended; changes that are staged meanwhile come after it. One that was never ended (for
  /// want of memory) has failed, in doubt. A tensor with an unsafe content gets its newest name
  /// with its last safe one: so the manifest names every tensor once, whatever took its old name.
  const Batch& begin_batch();
  const Batch& batch() const noexcept { return batch_; }
  /// A drive could not be synced: nothing is safe that was written there and not published. What
  /// the batch has of it goes back.
  void take_unsafe(std::uint32_t drive, const Error& why);
  /// For StoredTensor::failed_syncs of what is written to the drive from here on.
  std::uint64_t failed_syncs(std::uint32_t drive) const;
  /// The manifest names the batch now.
  void end_published();
  /// The batch is still to come, except where newer changes have overtaken it. `in_doubt`: a crash
  /// might bring it back all the same.
  void end_failed(bool in_doubt);

  /// The newest state of every tensor by name, changes to come included.
  std::map<std::string, CatalogEntry> newest() const;
  /// Of one; null if there is none. Valid until the next change.
  const CatalogEntry* find(const std::string& name) const;
  /// What the manifest names once the batch is published.
  std::vector<ManifestRecord> published_records() const;
  /// What the last batch was to have and could not: it waits to be put again.
  const std::vector<std::pair<std::string, Error>>& held_back() const noexcept {
    return held_back_;
  }
  /// Something newer than what was held back has come since. That is not safe yet either.
  bool has_overtaken() const;
  /// Bytes of extents that only the manifest still needs: the next publish frees them.
  std::uint64_t superseded_bytes() const noexcept { return superseded_bytes_; }
  /// Of a content's record in the manifest, at most.
  static std::uint64_t record_bytes(const TensorInfo& info);
  /// Of the records that the manifest has yet to take, those of the batch among them.
  std::uint64_t waiting_record_bytes() const noexcept {
    return staged_record_bytes_ + batch_record_bytes_;
  }

 private:
  struct FailedSyncs {
    std::uint64_t count = 0;
    Error last;
  };

  using ByNumber = std::unordered_map<std::uint64_t, const CatalogEntry*>;

  ByNumber published_by_number() const;
  const CatalogEntry* last_safe(const CatalogEntry& entry, const ByNumber& by_number) const;
  void hold_back_unsafe(const ByNumber& by_number);
  void set_change(const std::string& name, Change change);
  void set_published(const std::string& name, std::optional<CatalogEntry>& entry);
  void take_back(Batch::node_type change) noexcept;
  std::uint64_t published_bytes(const std::string& name) const;

  std::map<std::string, CatalogEntry> published_;
  Batch batch_;                                           // on their way into the manifest
  Batch staged_;                                          // newer than both
  std::vector<std::pair<std::string, Error>> held_back_;  // of the batch
  std::vector<HeldExtent> in_doubt_;
  std::map<std::uint32_t, FailedSyncs> failed_syncs_;  // by drive; most have none
  std::uint64_t superseded_bytes_ = 0;
  std::uint64_t staged_record_bytes_ = 0;
  std::uint64_t batch_record_bytes_ = 0;
};

}  // namespace penstock
