#include "swap/store/store_home.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "alloc/excerpt.h"
#include "swap/store/contents_file.h"
#include "swap/store/drive_path.h"
#include "swap/store/random_number.h"

namespace penstock {
namespace {

// The process that made the directories of `path` may have been stopped before their names were
// safe, so all of them are made safe, but for those that this process may not open.
Result<void> make_path_safe(FileSystem& system, const std::string& path) {
  const std::filesystem::path whole = absolute_path(path);
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

bool may_lie_beside(const std::string& name) {
  return name == "lock" || name == "spare" || name == "manifest.new" || name == "lost+found" ||
         is_contents_file(name);
}

}  // namespace

Result<ManifestState> StoreHome::take() {
  PENSTOCK_TRY(check_named_once());
  Result<ManifestState> state = read_manifest();
  // Without the lock it is the directory that is not there.
  const bool is_new = lock_ && state.has_error() && state.error().system_errno() == ENOENT;
  if (is_new && writes()) {
    PENSTOCK_TRY(check_directory());
    PENSTOCK_TRY(check_not_a_drive());
    PENSTOCK_TRY(make_path_safe(*options_.system, directory()));
    state = ManifestState();
    state->store = random_number();
  } else if (state.has_error()) {
    return state;
  }
  known_drives_ = state->drives.size();
  return state;
}

/// What refuses the directory to a writer does so before a lock file is made in it; a reader makes
/// none. Returns what the manifest says under the lock.
Result<ManifestState> StoreHome::read_manifest() {
  FileSystem& system = *options_.system;
  if (writes()) {
    PENSTOCK_TRY(system.make_directories(directory()));
  }
  Result<std::unique_ptr<Directory>> place = open_store_directory(system, directory());
  if (place.has_error()) {
    return std::move(place).error();
  }
  place_ = std::move(place).value();
  std::optional<ManifestState> before;
  if (writes()) {
    Result<ManifestState> state = Manifest::read(*place_);
    if (state.has_value()) {
      before = std::move(state).value();
    } else {
      const bool is_new = state.error().system_errno() == ENOENT;
      PENSTOCK_TRY(is_new ? check_directory() : std::move(state).error());
    }
  }
  Result<StoreLock> lock =
      StoreLock::take(*place_, writes() ? StoreLock::Use::kWrite : StoreLock::Use::kRead);
  if (lock.has_error()) {
    return std::move(lock).error();
  }
  lock_ = std::move(lock).value();
  if (before && Manifest::is_still(*place_, *before)) {
    return std::move(*before);
  }
  return Manifest::read(*place_);
}

/// A store is begun in an empty directory, so that a slip of the keyboard mixes no files.
Result<void> StoreHome::check_directory() const {
  const Result<std::vector<std::string>> names = place_->list();
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
  for (const std::string& name : *names) {
    // A further drive of another store has an index, too.
    const bool is_home = is_contents_file(name) && std::ranges::count(name, '-') == 1;
    if (const auto file = is_home ? find_contents(*place_, name) : std::nullopt) {
      return system_error(
          ENOTEMPTY,
          fmt::format("cannot begin a store in {}: {} has the contents of one whose "
                      "manifest is gone; restore that, or choose an empty directory",
                      directory(), *file),
          *file);
    }
  }
  return {};
}

/// The store's directory is the path that is named first. In another order an empty store would
/// begin on a drive of the one that is meant. Errors: ENOTEMPTY with the directory of that one.
Result<void> StoreHome::check_not_a_drive() const {
  const std::string here = absolute_path(directory());
  for (const PathConfig& path : options_.paths) {
    if (place_of(path.path).empty()) {
      continue;
    }
    const Result<std::unique_ptr<Directory>> place =
        open_store_directory(*options_.system, path.path);
    const Result<ManifestState> state = place ? Manifest::read(**place) : place.error();
    if (state.has_error()) {
      continue;  // it says nothing of this directory
    }
    const auto is_here = [&](const DriveRecord& drive) {
      return is_same_directory(drive.directory, here);
    };
    if (std::ranges::any_of(state->drives, is_here)) {
      return system_error(ENOTEMPTY,
                          fmt::format("cannot begin a store in {}, which is a drive of the store "
                                      "in {}; name {} first",
                                      directory(), path.path, path.path),
                          path.path);
    }
  }
  return {};
}

/// A link to a directory that is named, too: the second file would be the first one, which is
/// locked. Errors: EINVAL with the path.
Result<void> StoreHome::check_named_once() const {
  for (std::size_t i = 0; i < options_.paths.size(); ++i) {
    const std::string& path = options_.paths[i].path;
    for (std::size_t j = 0; j < i; ++j) {
      const std::string& before = options_.paths[j].path;
      if (place_of(path) != place_of(before) && is_same_directory(path, before)) {
        return system_error(
            EINVAL, fmt::format("{} and {} are one directory; name it once", before, path), path);
      }
    }
  }
  return {};
}

/// As a DriveRecord says it: empty for the store's own directory.
std::string StoreHome::place_of(const std::string& path) const {
  const std::string full = absolute_path(path);
  return full == absolute_path(directory()) ? std::string() : full;
}

/// The drives that the caller names, as records: known ones as they are now, then new ones.
std::vector<DriveRecord> StoreHome::wanted_drives(const ManifestState& state) const {
  std::vector<DriveRecord> drives = state.drives;
  std::vector<PathConfig> paths = options_.paths;
  if (paths.empty() && drives.empty()) {
    paths.push_back({directory(), std::nullopt, std::nullopt});
  }
  for (const PathConfig& path : paths) {
    const std::string place = place_of(path.path);
    auto known = std::ranges::find(drives, place, &DriveRecord::directory);
    if (known == drives.end()) {
      known = std::ranges::find_if(
          drives, [&](const DriveRecord& drive) { return is_at(drive, path.path); });
    }
    if (known == drives.end()) {
      DriveRecord drive;
      drive.index = static_cast<std::uint32_t>(drives.size());
      drive.directory = place;
      drive.file = data_file_name(state.store, drive.index);
      known = drives.insert(drives.end(), std::move(drive));
    }
    known->weight = path.weight.value_or(1.0);
    known->max_bytes = path.max_bytes;
  }
  return drives;
}

Result<void> StoreHome::add_named_drives(ManifestState& state) const {
  state.drives = wanted_drives(state);
  return check_new_drives(state);
}

Result<std::unique_ptr<Manifest>> StoreHome::begin_manifest(const ManifestState& state) const {
  std::vector<ManifestRecord> records = state.records();
  records.emplace_back(SessionRecord{SessionRecord::Event::kOpened});
  auto begun = Manifest::begin(*place_, state.store, state.sequence, records);
  if (begun.has_value() || !begun.error().is_full() || state.sequence == 0) {
    return begun;
  }
  Error error = begun.error();
  error.message += "; free some space there, or save what the store has (penstock export)";
  return error;
}

/// A drive that was moved is no new one: its tensors would seem to be gone.
Result<void> StoreHome::check_new_drives(const ManifestState& state) const {
  const std::span<const DriveRecord> all(state.drives);
  for (const DriveRecord& drive : all.subspan(known_drives_)) {
    const Result<std::unique_ptr<Directory>> place =
        options_.system->open_directory(drive.directory.empty() ? directory() : drive.directory);
    if (place.has_error()) {
      continue;  // it is made when it is opened
    }
    if (const auto own = find_contents(**place, drive.file)) {
      return system_error(
          EEXIST,
          fmt::format("{} has contents that the manifest of {} does not know, which "
                      "may be an older one; restore the newer one, or remove the "
                      "file",
                      *own, directory()),
          *own);
    }
    for (const DriveRecord& known : all.first(known_drives_)) {
      if (const auto file = find_contents(**place, known.file)) {
        return system_error(
            EEXIST,
            fmt::format("{} is of the drive that the store {} has at {}; a drive that was moved is "
                        "named as before: mount it there, or make a link to it",
                        *file, directory(),
                        known.directory.empty() ? directory() : known.directory),
            *file);
      }
    }
  }
  return {};
}

/// Also under another name, such as a link to it.
bool StoreHome::is_at(const DriveRecord& drive, const std::string& path) const {
  return is_same_directory(drive.directory.empty() ? absolute_path(directory()) : drive.directory,
                           absolute_path(path));
}

/// As the caller names its directory, which is opened by that name: the manifest's may be a link of
/// another user's. Nothing: the caller does not name it.
std::optional<std::string> StoreHome::callers_name(const DriveRecord& drive) const {
  std::vector<std::string> names = options_.trusted;
  std::ranges::transform(options_.paths, std::back_inserter(names), &PathConfig::path);
  const auto found =
      std::ranges::find_if(names, [&](const std::string& name) { return is_at(drive, name); });
  return found == names.end() ? std::nullopt : std::optional(absolute_path(*found));
}

bool StoreHome::grows(const DriveRecord& drive) const {
  const auto is_this = [&](const PathConfig& path) { return is_at(drive, path.path); };
  return writes() && drive.max_bytes != 0U &&
         (options_.paths.empty() || std::ranges::any_of(options_.paths, is_this));
}

/// `contents_end`: where the last content ends; 0: the drive holds nothing.
Result<StoreHome::OpenDrive> StoreHome::open_drive(const DriveRecord& drive,
                                                   std::uint64_t contents_end) const {
  if (drive.directory.empty()) {
    return open_in(*place_, drive, contents_end);
  }
  const std::optional<std::string> name = callers_name(drive);
  if (!name) {
    return system_error(
        EPERM,
        fmt::format("the manifest of {} says that contents lie in {}, which is opened only where "
                    "you name it, too (--path, penstock.paths)",
                    directory(), excerpt(drive.directory)),
        drive.directory);
  }
  FileSystem& system = *options_.system;
  if (writes() && contents_end == 0) {
    PENSTOCK_TRY(system.make_directories(*name));
  }
  const Result<std::unique_ptr<Directory>> place = system.open_directory(*name);
  if (place.has_error()) {
    return place.error();
  }
  return open_in(**place, drive, contents_end);
}

Result<StoreHome::OpenDrive> StoreHome::open_in(Directory& place, const DriveRecord& drive,
                                                std::uint64_t contents_end) const {
  Result<ContentsFile> opened =
      writes() ? open_contents(place, drive.file, contents_end) : read_contents(place, drive.file);
  if (opened.has_error()) {
    return std::move(opened).error();
  }
  if (writes() && contents_end == 0) {  // it may be new
    PENSTOCK_TRY(place.sync());
    PENSTOCK_TRY(make_path_safe(*options_.system, place.path()));
  }
  const StoreDrives::Role role = opened->is_read_only ? StoreDrives::Role::kReadOnly
                                 : grows(drive)       ? StoreDrives::Role::kGrows
                                                      : StoreDrives::Role::kRetired;
  return OpenDrive{std::move(opened->file), role};
}

}  // namespace penstock
