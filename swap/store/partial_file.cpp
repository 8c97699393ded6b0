#include "swap/store/partial_file.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "swap/store/random_number.h"

namespace penstock {
namespace {

constexpr const char* kSuffix = ".partial";

// What a process that died has left: nobody holds its lock.
Result<void> remove_abandoned(FileSystem& system, const std::string& directory,
                              const std::string& name) {
  const Result<std::vector<std::string>> names = system.list(directory);
  if (names.has_error()) {
    return names.error();
  }
  for (const std::string& found : *names) {
    if (!found.starts_with("." + name + ".") || !found.ends_with(kSuffix)) {
      continue;
    }
    const std::string path = directory + "/" + found;
    const Result<File> file = system.open(path, File::Access::kReadWrite, DirectMode::kBuffered);
    const Result<bool> locked = file ? file->try_lock() : Result<bool>(false);
    if (locked && *locked) {
      (void)system.remove(path);  // or it has got its name, or somebody else removed it
    }
  }
  return {};
}

}  // namespace

PartialFile::PartialFile(FileSystem& system, File file, std::string partial_path, std::string path,
                         std::uint64_t bytes)
    : system_(&system),
      file_(std::move(file)),
      partial_path_(std::move(partial_path)),
      path_(std::move(path)),
      bytes_(bytes) {}

PartialFile::PartialFile(PartialFile&& other) noexcept
    : system_(other.system_),
      file_(std::move(other.file_)),
      partial_path_(std::exchange(other.partial_path_, {})),
      path_(std::move(other.path_)),
      bytes_(other.bytes_) {}

PartialFile& PartialFile::operator=(PartialFile&& other) noexcept {
  PartialFile taken(std::move(other));
  std::swap(system_, taken.system_);
  std::swap(file_, taken.file_);
  std::swap(partial_path_, taken.partial_path_);
  std::swap(path_, taken.path_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

PartialFile::~PartialFile() {
  if (!partial_path_.empty()) {
    (void)system_->remove(partial_path_);  // what failed before is being told already
  }
}

Result<PartialFile> PartialFile::begin(FileSystem& system, const std::string& directory,
                                       const std::string& name, std::uint64_t bytes) {
  PENSTOCK_TRY(remove_abandoned(system, directory, name));
  const std::string partial_path =
      fmt::format("{}/.{}.{:016x}{}", directory, name, random_number(), kSuffix);
  Result<File> file = system.open(partial_path, File::Access::kCreate, DirectMode::kAuto);
  if (file.has_error()) {
    return std::move(file).error();
  }
  PartialFile partial(system, std::move(file).value(), partial_path, directory + "/" + name, bytes);
  const Result<bool> locked = partial.file_.try_lock();
  if (locked.has_error()) {
    return locked.error();
  }
  PENSTOCK_TRY(partial.file_.reserve(0, bytes));
  return partial;
}

Result<void> PartialFile::write(const std::string& text) {
  // Small and unaligned: not for a file whose I/O is direct.
  const Result<File> buffered =
      system_->open(partial_path_, File::Access::kReadWrite, DirectMode::kBuffered);
  if (buffered.has_error()) {
    return buffered.error();
  }
  PENSTOCK_TRY(buffered->write_at(0, std::as_bytes(std::span(text))));
  return buffered->sync();
}

Result<void> PartialFile::finish() {
  PENSTOCK_TRY(file_.truncate(bytes_));
  return file_.sync();
}

Result<void> PartialFile::publish() {
  PENSTOCK_TRY(system_->rename(partial_path_, path_));
  partial_path_.clear();
  return {};
}

}  // namespace penstock
