#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "io/file_system.h"
#include "swap/store/manifest_state.h"
#include "swap/store/spare_space.h"

namespace penstock {

/// The directory of a durable store that is there. Errors: ENOENT and others with the path.
Result<std::unique_ptr<Directory>> open_store_directory(FileSystem& system,
                                                        const std::string& path);

/// The manifest of a durable store as a file that is written: what has been published is safe from
/// any crash, what is being published is there as a whole or not at all. One thread at a time, in
/// the one process that holds the store's lock.
class Manifest {
 public:
  /// What the manifest in `directory` says; changes nothing. A drive may give wrong bytes once, so
  /// what is not whole is read again before it is believed. Errors: ENOENT if there is none; as
  /// parse_manifest.
  static Result<ManifestState> read(Directory& directory);

  /// Whether the manifest in `directory` is still as it was when read() gave `state`: each writer
  /// begins it anew with another first number and only appends, so head and length are enough.
  static bool is_still(Directory& directory, const ManifestState& state);

  /// A writer begins a new manifest, with number `sequence` + 1, because the last syncs of the old
  /// one, of the file or of its name, may have failed. What was read() may be in the page cache
  /// only, and a power cut would lose it with all that is appended to it. Safe on return.
  /// `directory` outlives it.
  static Result<std::unique_ptr<Manifest>> begin(Directory& directory, std::uint64_t store,
                                                 std::uint64_t sequence,
                                                 std::span<const ManifestRecord> records);

  /// All of the store as it is once `changes` are published.
  using AllRecords = std::function<std::vector<ManifestRecord>()>;

  /// Safe on return. Where the journal has become long, was removed or changed by others, or a
  /// write or sync of it has failed, all() is written anew into another file that takes its place.
  /// Errors: errno and path; EEXIST where another manifest has its name. Afterwards either state
  /// may be what a crash leaves, until a later publish() succeeds; in_doubt() says so.
  Result<void> publish(std::span<const ManifestRecord> changes, const AllRecords& all);

  /// False: what was published is not there any more; a publish() writes it anew.
  bool is_as_written() const;
  bool in_doubt() const noexcept { return in_doubt_; }
  std::uint64_t sequence() const noexcept { return sequence_; }
  /// Written since this object was made, padding included.
  std::uint64_t written_bytes() const noexcept { return written_bytes_; }
  SpareSpace& spare() noexcept { return *spare_; }
  /// For the end of the store's use: what the next begin() needs stays free for it.
  void leave_spare() { spare_->leave(end_ + kBlockBytes, next_bytes()); }

 private:
  Manifest(Directory& directory, std::uint64_t store);
  Result<void> append(std::span<const ManifestRecord> records);
  Result<void> rewrite(std::span<const ManifestRecord> records);
  bool is_removed() const { return named_ && !file_->has_name(); }
  Result<void> check_not_replaced() const;
  Result<File> make_beside();
  Result<void> write_beside(std::span<const std::byte> bytes);
  Result<void> write(const File& file, std::uint64_t offset, std::span<const std::byte> bytes);
  bool is_long() const;
  /// Of one that begins anew with what this one said when it did, and of a batch behind that.
  std::uint64_t next_bytes() const noexcept { return anew_bytes_ + kBlockBytes; }

  Directory& directory_;
  std::uint64_t store_;
  std::unique_ptr<SpareSpace> spare_;
  std::unique_ptr<File> file_;
  std::uint64_t first_sequence_ = 0;  // as the file's head says
  std::uint64_t sequence_ = 0;
  std::uint64_t end_ = 0;         // where the next batch goes
  std::uint64_t anew_bytes_ = 0;  // of the file when it was last written anew
  std::uint64_t written_bytes_ = 0;
  bool named_ = false;     // file_ had a name, which a file system may not say
  bool in_doubt_ = false;  // what the file holds beyond the last good publish
};

}  // namespace penstock
