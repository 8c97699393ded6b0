#include "swap/store/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "alloc/bytes.h"
#include "swap/store/manifest_batch.h"

namespace penstock {
namespace {

// A journal of this many bytes is read in no time; a longer one is written anew when it has become
// several times as long as what it says.
constexpr std::uint64_t kShortBytes = 4 * kMiB;
constexpr std::uint64_t kLongerTimes = 4;
constexpr int kReadsMax = 3;
// More than ten million tensors need; a file that claims more is none of ours.
constexpr std::uint64_t kManifestBytesMax = 4 * kGiB;

constexpr const char* kManifestName = "manifest";
constexpr const char* kNewManifestName = "manifest.new";

Result<ManifestState> read_once(const File& file) {
  const Result<std::uint64_t> size = file.size_bytes();
  PENSTOCK_TRY(size);
  if (*size > kManifestBytesMax) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} has {}: it is no manifest", file.path(), format_bytes(*size)),
                 file.path());
  }
  const ManifestBytes bytes{*size, [&file](std::uint64_t offset, std::span<std::byte> target) {
                              return file.read_at(offset, target);
                            }};
  Result<ManifestState> state = parse_manifest(bytes, file.path());
  if (state.has_error()) {
    state.error().path = file.path();
  }
  return state;
}

bool has_head(const File& file, std::uint64_t store, std::uint64_t first_sequence) {
  std::vector<std::byte> block(kBlockBytes);
  ManifestHead head;
  return file.read_at(0, block).has_value() && decode_head(block, head) == HeadIs::kGood &&
         head.store == store && head.first_sequence == first_sequence;
}

Error no_store(const std::string& directory, const std::string& why) {
  return system_error(ENOENT, fmt::format("{} is no durable store of penstock, {}", directory, why),
                      directory);
}

}  // namespace

Result<std::unique_ptr<Directory>> open_store_directory(FileSystem& system,
                                                        const std::string& path) {
  Result<std::unique_ptr<Directory>> directory = system.open_directory(path);
  if (directory.has_error() && directory.error().system_errno() == ENOENT) {
    return no_store(path, "there is no such directory");
  }
  return directory;
}

Manifest::Manifest(Directory& directory, std::uint64_t store)
    : directory_(directory), store_(store) {}

Result<ManifestState> Manifest::read(Directory& directory) {
  const Result<File> file =
      directory.open(kManifestName, File::Access::kRead, DirectMode::kBuffered);
  if (file.has_error() && file.error().system_errno() == ENOENT) {
    return no_store(directory.path(), "it has no manifest");
  }
  PENSTOCK_TRY(file);
  Result<ManifestState> best = read_once(*file);
  for (int i = 1; i < kReadsMax && (best.has_error() || best->torn_bytes > 0); ++i) {
    Result<ManifestState> again = read_once(*file);
    if (best.has_error() || (again && again->sequence > best->sequence)) {
      best = std::move(again);
    }
  }
  return best;
}

bool Manifest::is_still(Directory& directory, const ManifestState& state) {
  const Result<File> file =
      directory.open(kManifestName, File::Access::kRead, DirectMode::kBuffered);
  const Result<std::uint64_t> size = file ? file->size_bytes() : file.error();
  if (size.has_error() || *size != state.valid_bytes + state.torn_bytes) {
    return false;
  }
  return has_head(*file, state.store, state.first_sequence);
}

Result<std::unique_ptr<Manifest>> Manifest::begin(Directory& directory, std::uint64_t store,
                                                  std::uint64_t sequence,
                                                  std::span<const ManifestRecord> records) {
  std::unique_ptr<Manifest> manifest(new Manifest(directory, store));
  Result<std::unique_ptr<SpareSpace>> spare = SpareSpace::open(directory);
  PENSTOCK_TRY(spare);
  manifest->spare_ = std::move(spare).value();
  manifest->sequence_ = sequence;
  if (Result<void> begun = manifest->rewrite(records); begun.has_error()) {
    if (begun.error().is_full()) {
      manifest->spare_->remove();
    }
    return std::move(begun).error();
  }
  // The old manifest's blocks are free now. Others may take them, and a close needs some.
  (void)manifest->spare_->keep(manifest->next_bytes());
  return manifest;
}

Result<void> Manifest::publish(std::span<const ManifestRecord> changes, const AllRecords& all) {
  if (in_doubt_ || !is_as_written()) {
    return rewrite(all());
  }
  if (Result<void> appended = append(changes); appended.has_error()) {
    in_doubt_ = true;
    if (appended.error().is_full()) {  // some file systems say so only when they sync
      PENSTOCK_TRY(spare_->release());
    }
    return rewrite(all()).has_error() ? std::move(appended) : Result<void>();
  }
  if (is_long()) {
    // It is safe already; if this fails, the journal goes on growing or is tried again.
    (void)rewrite(all());
  }
  return {};
}

/// Where the spare has been used, the drive is full, and space that old records take is missed.
bool Manifest::is_long() const {
  return end_ > std::max(spare_->is_kept() ? kShortBytes : 0, kLongerTimes * anew_bytes_);
}

Result<void> Manifest::append(std::span<const ManifestRecord> records) {
  const std::vector<std::byte> batch = encode_batch(store_, sequence_ + 1, records);
  PENSTOCK_TRY(write(*file_, end_, batch));
  PENSTOCK_TRY(file_->sync());
  ++sequence_;
  end_ += batch.size();
  if (!is_as_written()) {
    PENSTOCK_TRY(check_not_replaced());
    return system_error(ENOENT, fmt::format("{} was removed or changed", file_->path()),
                        file_->path());
  }
  return {};
}

/// Another program may have removed it, cut it off, or copied a backup over it. A file system that
/// cannot report the size is believed.
bool Manifest::is_as_written() const {
  const Result<std::uint64_t> size = file_->size_bytes();
  const bool is_cut = size.has_value() && *size != end_;
  return !is_removed() && !is_cut && has_head(*file_, store_, first_sequence_);
}

/// Until the new file has the name, the old one stands as it is; from then on, until the name is
/// safe, either may be what a crash leaves, so nothing may be appended to only one of them.
Result<void> Manifest::rewrite(std::span<const ManifestRecord> records) {
  std::vector<std::byte> bytes = encode_head({ManifestHead::kVersion, store_, sequence_ + 1});
  const std::vector<std::byte> batch = encode_batch(store_, sequence_ + 1, records);
  bytes.insert(bytes.end(), batch.begin(), batch.end());
  PENSTOCK_TRY(write_beside(bytes));
  PENSTOCK_TRY(check_not_replaced());
  in_doubt_ = true;
  PENSTOCK_TRY(directory_.rename(kNewManifestName, kManifestName));
  named_ = false;  // the file that had the name, by this process's own doing
  Result<File> file =
      directory_.open(kManifestName, File::Access::kReadWrite, DirectMode::kBuffered);
  PENSTOCK_TRY(file);
  file_ = std::make_unique<File>(std::move(file).value());
  named_ = file_->has_name();
  PENSTOCK_TRY(directory_.sync());
  in_doubt_ = false;
  first_sequence_ = ++sequence_;
  end_ = bytes.size();
  anew_bytes_ = bytes.size();
  return {};
}

/// A manifest that was only removed is made again. Another one in its place says what this process
/// does not know: a backup that was restored, or a store that was begun there.
Result<void> Manifest::check_not_replaced() const {
  if (!is_removed()) {
    return {};
  }
  const Result<File> other =
      directory_.open(kManifestName, File::Access::kRead, DirectMode::kBuffered);
  if (other.has_error() && other.error().system_errno() == ENOENT) {
    return {};
  }
  return system_error(EEXIST,
                      fmt::format("{} was replaced while this process writes to the store; what "
                                  "this process puts there is not kept",
                                  file_->path()),
                      file_->path());
}

/// What has the name already was begun before a crash, or is none of ours: it goes, whatever it is.
Result<File> Manifest::make_beside() {
  const auto make = [this] {
    return directory_.open(kNewManifestName, File::Access::kExclusive, DirectMode::kBuffered);
  };
  Result<File> file = make();
  if (file.has_error() && file.error().system_errno() == EEXIST) {
    PENSTOCK_TRY(directory_.remove(kNewManifestName));
    file = make();
  }
  return file;
}

Result<void> Manifest::write_beside(std::span<const std::byte> bytes) {
  const Result<File> file = make_beside();
  PENSTOCK_TRY(file);
  Result<void> written = write(*file, 0, bytes);
  if (written.has_value()) {
    written = file->sync();
  }
  if (written.has_error()) {
    (void)directory_.remove(kNewManifestName);  // half of it would fill a full drive
  }
  return written;
}

Result<void> Manifest::write(const File& file, std::uint64_t offset,
                             std::span<const std::byte> bytes) {
  Result<void> written = file.write_at(offset, bytes);
  if (written.has_error() && written.error().is_full()) {
    PENSTOCK_TRY(spare_->release());
    written = file.write_at(offset, bytes);
  }
  written_bytes_ += written.has_value() ? bytes.size() : 0;
  return written;
}

}  // namespace penstock
