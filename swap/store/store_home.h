#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"
#include "swap/store/durable_store_options.h"
#include "swap/store/manifest.h"
#include "swap/store/store_drives.h"
#include "swap/store/store_lock.h"

namespace penstock {

/// The directory of a durable store: its lock, its manifest, and which files of contents it has,
/// there and in other directories. Not thread-safe.
class StoreHome {
 public:
  explicit StoreHome(DurableStoreOptions options) : options_(std::move(options)) {}

  const std::string& directory() const noexcept { return options_.directory; }
  bool writes() const noexcept { return options_.access == DurableStoreOptions::Access::kWrite; }

  /// Takes the lock. What the manifest says; for a writer a new store's, where there is none.
  /// Errors: as DurableStore::open()'s.
  Result<ManifestState> take();
  /// The lock is free again.
  void leave() noexcept { lock_.reset(); }

  /// Adds the drives that the caller names. Errors: EEXIST where one of these is a known one under
  /// another name.
  Result<void> add_named_drives(ManifestState& state) const;
  /// The manifest to be written from here on. To be begun when the drives are locked: a process
  /// that is refused there must not take the manifest from the one that writes it.
  Result<std::unique_ptr<Manifest>> begin_manifest(const ManifestState& state) const;
  struct OpenDrive {
    File file;
    StoreDrives::Role role;
  };
  /// `contents_end`: where the last content ends; 0: the drive holds nothing.
  Result<OpenDrive> open_drive(const DriveRecord& drive, std::uint64_t contents_end) const;
  /// Whether the manifest had it when it was read.
  bool knows(const DriveRecord& drive) const noexcept { return drive.index < known_drives_; }

 private:
  Result<ManifestState> read_manifest();
  Result<void> check_directory() const;
  Result<void> check_not_a_drive() const;
  Result<void> check_named_once() const;
  std::vector<DriveRecord> wanted_drives(const ManifestState& state) const;
  Result<void> check_new_drives(const ManifestState& state) const;
  bool grows(const DriveRecord& drive) const;
  Result<OpenDrive> open_in(Directory& place, const DriveRecord& drive,
                            std::uint64_t contents_end) const;
  std::string place_of(const std::string& path) const;
  bool is_at(const DriveRecord& drive, const std::string& path) const;
  std::optional<std::string> callers_name(const DriveRecord& drive) const;

  const DurableStoreOptions options_;
  std::unique_ptr<Directory> place_;
  std::optional<StoreLock> lock_;
  std::size_t known_drives_ = 0;  // that the manifest had when it was read
};

}  // namespace penstock
