#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/extent_allocator.h"
#include "alloc/result.h"
#include "io/file_system.h"
#include "swap/plan/path_config.h"
#include "swap/transfer/stored_tensor.h"

namespace penstock {

/// What one drive of a store is and holds, for reports.
struct DriveState {
  std::string path;  ///< of the file; for scratch stores of its directory
  double weight = 1.0;
  std::optional<std::uint64_t> max_bytes;
  std::uint64_t file_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::optional<Error> missing;  ///< why nothing on it can be read
};

/// The drives of one store and the space on them: one file a path, grown as needed, space reserved
/// before it is promised. A tensor lies whole on one drive; drives are filled in proportion to
/// their weights. Moves no bytes itself. Drives are added before anything else is asked for;
/// everything else from any thread. Extents that are held keep it alive.
class StoreDrives : public std::enable_shared_from_this<StoreDrives> {
 public:
  /// Files grow by this much, or an eighth of what is free, so that the first step does not ask the
  /// file system for every tensor; where that much is not there, by what is needed. Of what is
  /// known not to fit one block is asked for.
  static constexpr std::uint64_t kGrowthBytes = 64 * kMiB;

  explicit StoreDrives(FileSystem& system) : system_(system) {}
  StoreDrives(const StoreDrives&) = delete;
  StoreDrives& operator=(const StoreDrives&) = delete;

  enum class Role : std::uint8_t {
    kGrows,     ///< takes new contents
    kRetired,   ///< is read and given back, but takes nothing new
    kReadOnly,  ///< the same, and is not cut off either
  };
  /// `taken`: extents that hold something already, disjoint, ascending.
  void add(File file, const PathConfig& config, Role role = Role::kGrows,
           std::span<const Extent> taken = {});
  /// A drive that is not there: nothing is read from it and nothing goes there.
  void add_missing(std::string path, const PathConfig& config, Error why);

  struct Space {
    std::uint32_t drive = 0;
    Extent extent;
  };
  /// Tries the drives in turn: the emptiest by its weight first, those that have failed a write
  /// last, those in `avoid` never. Errors: ENOSPC (or what the last drive said) with path, and what
  /// is free there.
  Result<Space> reserve(std::uint64_t bytes, std::span<const std::uint32_t> avoid = {});
  void release(std::uint32_t drive, Extent extent);
  /// Releases the extent with its last holder. Identity may be filled in before it is shared.
  std::shared_ptr<StoredTensor> hold(const StoredTensor& stored);
  /// A write there was refused by the drive: others go first from now on.
  void note_failure(std::uint32_t drive);

  std::size_t count() const noexcept { return drives_.size(); }
  /// Errors: why the drive is missing; Fault::kCorrupt where its file ends before the extent does.
  Result<void> check_present(std::uint32_t drive, Extent extent) const;
  /// What was written to a drive that is not missing survives a crash. Errors: errno and path;
  /// as check_whole(). Then nothing is safe that was written before.
  Result<void> sync(std::uint32_t drive) const;
  /// A file that was cut gets its length again, so that what comes has its space, and another cut
  /// shows.
  void lengthen(std::uint32_t drive);
  /// Of files that hold something. Errors: ENOENT with the path of one that was removed;
  /// Fault::kCorrupt with that of one that others have cut.
  Result<void> check_whole() const;
  /// Of a drive that is not missing.
  const File& file(std::uint32_t drive) const;
  std::uint64_t used_bytes() const;
  std::vector<DriveState> states() const;

  /// Others may lock the files now (File::try_lock()).
  Result<void> unlock();
  /// Cuts off what is free at the ends of the files. Nothing may be reserved afterwards. Errors:
  /// errno and path.
  Result<void> trim();

 private:
  struct Drive {
    std::optional<File> file;      // nothing: missing
    std::optional<Error> missing;  // why
    std::string path;
    std::optional<std::uint64_t> max_bytes;
    double weight = 1.0;
    Role role = Role::kGrows;
    bool named = false;  // the file had a name, which a file system may not say
    bool failed = false;
    std::uint64_t file_bytes = 0;         // where the file ends by this process's doing
    std::optional<std::uint64_t> cut_to;  // by others, as seen before a write that may hide it
    ExtentAllocator space{0, IdentityBlock::kBytes};
  };

  /// Where the file ends, if that is before what this process has made of it.
  static std::optional<std::uint64_t> cut_end(const Drive& drive);
  static Result<void> check_whole(const Drive& drive);
  Result<Extent> reserve_on(Drive& drive, std::uint64_t bytes);
  Result<Extent> grow(Drive& drive, std::uint64_t bytes);
  std::string describe_free_space(const std::string& path) const;
  std::vector<std::uint32_t> order() const;

  FileSystem& system_;
  mutable std::mutex mutex_;  // guards what changes of every drive: `failed` and what follows it
  std::vector<Drive> drives_;
};

}  // namespace penstock
