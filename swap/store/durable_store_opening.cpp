// How a durable store is found or begun: its directory, its lock, its manifest, its drives.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "alloc/excerpt.h"
#include "swap/store/durable_store.h"
#include "swap/store/random_number.h"

namespace penstock {
namespace {

// Comparable, and the same from whatever directory it is used.
std::string absolute(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path full = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!full.has_filename() && full.has_relative_path()) {
    full = full.parent_path();
  }
  return full.string();
}

// Whoever made the directories of `path` may have been stopped before their names were safe, so all
// of them are made safe, but for those that are not ours to touch.
Result<void> make_path_safe(FileSystem& system, const std::string& path) {
  const std::filesystem::path whole = absolute(path);
  for (std::filesystem::path at = whole.parent_path();; at = at.parent_path()) {
    const Result<std::unique_ptr<Directory>> directory = system.open_directory(at.string());
    const Result<void> synced = directory ? (*directory)->sync() : directory.error();
    if (synced.has_error()) {
      const int number = synced.error().system_errno();
      const bool not_ours = number == EACCES || number == EPERM || number == EINVAL;
      if (!not_ours) {
        return synced.error();
      }
    }
    if (at == at.parent_path()) {
      return {};
    }
  }
}

/// Writes that io_uring has begun may outlive a process that was killed, and land where somebody
/// else's content lies by then. They keep the file open, and with it the lock on it.
Result<File> lock_contents(File file) {
  constexpr std::chrono::seconds kPatience{30};
  constexpr std::chrono::milliseconds kPause{2};
  for (auto waited = std::chrono::milliseconds::zero(); waited < kPatience; waited += kPause) {
    const Result<bool> locked = file.try_lock();
    if (locked.has_error()) {
      return locked.error();
    }
    if (*locked) {
      return file;
    }
    std::this_thread::sleep_for(kPause);
  }
  return system_error(EBUSY,
                      fmt::format("cannot use {}: another process has it locked, or writes of one "
                                  "that was killed do not end",
                                  file.path()),
                      file.path());
}

bool may_lie_beside(const std::string& name) {
  return name == "lock" || name == "spare" || name == "manifest.new" || name == "lost+found" ||
         (name.starts_with("tensors-") && name.ends_with(".data"));
}

}  // namespace

Result<std::unique_ptr<DurableStore>> DurableStore::open(DurableStoreOptions options) {
  if (options.directory.empty()) {
    return no_paths();
  }
  std::unique_ptr<DurableStore> store(new DurableStore(std::move(options)));
  Result<ManifestState> state = store->take_directory();
  // Without the lock it is the directory that is not there.
  const bool is_new = store->lock_ && state.has_error() && state.error().system_errno() == ENOENT;
  if (is_new && store->writes()) {
    PENSTOCK_TRY(store->check_directory());
    PENSTOCK_TRY(make_path_safe(*store->options_.system, store->directory()));
    state = ManifestState();
    state->store = random_number();
  } else if (state.has_error()) {
    return std::move(state).error();
  }
  store->known_drives_ = state->drives.size();
  if (store->writes()) {
    PENSTOCK_TRY(store->begin_manifest(*state));
  }
  PENSTOCK_TRY(store->open_drives(*state));
  store->restore(*state);
  return store;
}

/// What refuses the directory to a writer does so before a lock file is made in it; a reader makes
/// none. Returns what the manifest says under the lock.
Result<ManifestState> DurableStore::take_directory() {
  FileSystem& system = *options_.system;
  if (writes()) {
    PENSTOCK_TRY(system.make_directories(directory()));
  }
  Result<std::unique_ptr<Directory>> home = open_store_directory(system, directory());
  if (home.has_error()) {
    return std::move(home).error();
  }
  home_ = std::move(home).value();
  std::optional<ManifestState> before;
  if (writes()) {
    Result<ManifestState> state = Manifest::read(*home_);
    if (state.has_value()) {
      before = std::move(state).value();
    } else {
      const bool is_new = state.error().system_errno() == ENOENT;
      PENSTOCK_TRY(is_new ? check_directory() : std::move(state).error());
    }
  }
  Result<StoreLock> lock =
      StoreLock::take(*home_, writes() ? StoreLock::Use::kWrite : StoreLock::Use::kRead);
  if (lock.has_error()) {
    return std::move(lock).error();
  }
  lock_ = std::move(lock).value();
  if (before && Manifest::is_still(*home_, *before)) {
    return std::move(*before);
  }
  return Manifest::read(*home_);
}

/// A store is begun in an empty directory, so that a slip of the keyboard mixes no files.
Result<void> DurableStore::check_directory() {
  const Result<std::vector<std::string>> names = home_->list();
  if (names.has_error()) {
    return names.error();
  }
  const auto foreign = std::ranges::find_if_not(*names, may_lie_beside);
  if (foreign != names->end()) {
    return system_error(
        ENOTEMPTY,
        fmt::format("cannot begin a store in {}, where there is {}; choose an empty directory",
                    directory(), *foreign),
        directory());
  }
  return {};
}

/// As a DriveRecord says it: empty for the store's own directory.
std::string DurableStore::place_of(const std::string& path) const {
  const std::string full = absolute(path);
  return full == absolute(directory()) ? std::string() : full;
}

/// The drives that the caller names, as records: known ones as they are now, then new ones.
std::vector<DriveRecord> DurableStore::wanted_drives(const ManifestState& state) const {
  std::vector<DriveRecord> drives = state.drives;
  std::vector<PathConfig> paths = options_.paths;
  if (paths.empty() && drives.empty()) {
    paths.push_back({directory(), std::nullopt, std::nullopt});
  }
  for (const PathConfig& path : paths) {
    const std::string place = place_of(path.path);
    auto known = std::ranges::find(drives, place, &DriveRecord::directory);
    if (known == drives.end()) {
      DriveRecord drive;
      drive.index = static_cast<std::uint32_t>(drives.size());
      drive.directory = place;
      drive.file = data_file_name(state.store);
      known = drives.insert(drives.end(), std::move(drive));
    }
    known->weight = path.weight.value_or(1.0);
    known->max_bytes = path.max_bytes;
  }
  return drives;
}

Result<void> DurableStore::begin_manifest(ManifestState& state) {
  state.drives = wanted_drives(state);
  std::vector<ManifestRecord> records = state.records();
  records.emplace_back(SessionRecord{SessionRecord::Event::kOpened});
  Result<std::unique_ptr<Manifest>> manifest =
      Manifest::begin(*home_, state.store, state.sequence, records);
  if (manifest.has_error()) {
    return std::move(manifest).error();
  }
  manifest_ = std::move(manifest).value();
  return {};
}

bool DurableStore::is_named(const DriveRecord& drive) const {
  const auto is_this = [&](const std::string& path) { return drive.directory == place_of(path); };
  return drive.directory.empty() || std::ranges::any_of(options_.trusted, is_this) ||
         std::ranges::any_of(options_.paths, is_this, &PathConfig::path);
}

bool DurableStore::grows(const DriveRecord& drive) const {
  const auto is_this = [&](const PathConfig& path) {
    return drive.directory == place_of(path.path);
  };
  return writes() && drive.max_bytes != 0U &&
         (options_.paths.empty() || std::ranges::any_of(options_.paths, is_this));
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
    Result<File> file = open_drive(drive, extents.empty() ? 0 : extents.back().end());
    if (file.has_value()) {
      const StoreDrives::Role role =
          grows(drive) ? StoreDrives::Role::kGrows : StoreDrives::Role::kRetired;
      drives().add(std::move(file).value(), config, role, extents);
      takes_new = takes_new || grows(drive);
    } else if (drive.index >= known_drives_) {
      return std::move(file).error();
    } else {
      Error why = std::move(file).error();
      std::string path = why.path;
      missing = why;
      drives().add_missing(std::move(path), config, std::move(why));
    }
  }
  if (writes() && !takes_new && missing) {
    return std::move(*missing);
  }
  return {};
}

/// `contents_end`: where the last content ends; 0: the drive holds nothing.
Result<File> DurableStore::open_drive(const DriveRecord& drive, std::uint64_t contents_end) {
  if (drive.directory.empty()) {
    return open_contents(*home_, drive, contents_end);
  }
  if (!is_named(drive)) {
    return system_error(
        EPERM,
        fmt::format("the manifest of {} says that contents lie in {}, which is opened only where "
                    "you name it, too (--path, penstock.paths)",
                    directory(), excerpt(drive.directory)),
        drive.directory);
  }
  FileSystem& system = *options_.system;
  if (writes() && contents_end == 0) {
    PENSTOCK_TRY(system.make_directories(drive.directory));
  }
  const Result<std::unique_ptr<Directory>> place = system.open_directory(drive.directory);
  if (place.has_error()) {
    return place.error();
  }
  return open_contents(**place, drive, contents_end);
}

/// A drive that holds nothing is made anew where it is missing; one that holds contents must be
/// the one that it was, and as long: what is written to a shorter one would have no room of its
/// own.
Result<File> DurableStore::open_contents(Directory& place, const DriveRecord& drive,
                                         std::uint64_t contents_end) {
  if (!writes()) {
    return place.open(drive.file, File::Access::kRead, DirectMode::kAuto);
  }
  const bool holds_contents = contents_end > 0;
  Result<File> file =
      place.open(drive.file, holds_contents ? File::Access::kReadWrite : File::Access::kCreate,
                 DirectMode::kAuto);
  if (file.has_error()) {
    return file;
  }
  const Result<std::uint64_t> size = file->size_bytes();
  if (size.has_value() && *size < contents_end) {
    Error error = fault(
        Fault::kCorrupt,
        fmt::format("{} is cut short: it has {} bytes, and contents end at {}; export what is "
                    "whole (penstock verify lists what is not), or restore the file",
                    file->path(), *size, contents_end));
    error.path = file->path();
    return error;
  }
  if (!holds_contents) {
    PENSTOCK_TRY(place.sync());
    PENSTOCK_TRY(make_path_safe(*options_.system, place.path()));
  }
  return lock_contents(std::move(file).value());
}

void DurableStore::restore(const ManifestState& state) {
  drive_records_ = state.drives;
  notes_ = state.notes;
  std::uint64_t last_tensor = 0;
  for (const auto& [name, entry] : state.tensors) {
    last_tensor = std::max(last_tensor, entry.stored.identity.tensor);
    catalog_.restore({entry.info, hold(entry.stored)});
  }
  number_tensors_after(last_tensor);
}

}  // namespace penstock
