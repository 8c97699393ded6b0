#include "bindings/archive/partial_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "swap/store/random_number.h"

namespace penstock {
namespace {

constexpr const char* kSuffix = ".partial";

// What a process that died has left: its lock is free.
Result<void> remove_abandoned(Directory& directory, const std::string& name) {
  const Result<std::vector<std::string>> names = directory.list();
  PENSTOCK_TRY(names);
  for (const std::string& found : *names) {
    if (!found.starts_with("." + name + ".") || !found.ends_with(kSuffix)) {
      continue;
    }
    const Result<File> file =
        directory.open(found, File::Access::kReadWrite, DirectMode::kBuffered);
    const Result<bool> locked = file ? file->try_lock() : Result<bool>(false);
    if (locked && *locked) {
      (void)directory.remove(found);  // or it has got its name, or another process removed it
    }
  }
  return {};
}

}  // namespace

PartialFile::PartialFile(Directory& directory, File file, std::string partial_name,
                         std::string name, std::uint64_t bytes)
    : directory_(directory),
      file_(std::move(file)),
      partial_name_(std::move(partial_name)),
      name_(std::move(name)),
      bytes_(bytes) {}

PartialFile::~PartialFile() {
  if (!partial_name_.empty()) {
    (void)directory_.remove(partial_name_);  // the caller already reports the first error
  }
}

Result<std::unique_ptr<PartialFile>> PartialFile::begin(Directory& directory,
                                                        const std::string& name,
                                                        std::uint64_t bytes) {
  PENSTOCK_TRY(remove_abandoned(directory, name));
  const std::string partial_name = fmt::format(".{}.{:016x}{}", name, random_number(), kSuffix);
  Result<File> file = directory.open(partial_name, File::Access::kExclusive, DirectMode::kAuto);
  PENSTOCK_TRY(file);
  std::unique_ptr<PartialFile> partial(
      new PartialFile(directory, std::move(file).value(), partial_name, name, bytes));
  const Result<bool> locked = partial->file_.try_lock();
  PENSTOCK_TRY(locked);
  PENSTOCK_TRY(partial->file_.reserve(0, bytes));
  return partial;
}

Result<void> PartialFile::set_mode(::mode_t mode) {
  if (::fchmod(file_.fd(), mode) != 0) {
    return system_error(errno, fmt::format("cannot write {}", name_), name_);
  }
  return {};
}

Result<void> PartialFile::write(const std::string& text) {
  // Small and unaligned: not for a file whose I/O is direct.
  const Result<File> buffered =
      directory_.open(partial_name_, File::Access::kReadWrite, DirectMode::kBuffered);
  PENSTOCK_TRY(buffered);
  PENSTOCK_TRY(buffered->write_at(0, std::as_bytes(std::span(text))));
  return buffered->sync();
}

Result<void> PartialFile::finish() {
  PENSTOCK_TRY(file_.truncate(bytes_));
  return file_.sync();
}

Result<void> PartialFile::publish() {
  PENSTOCK_TRY(directory_.rename(partial_name_, name_));
  partial_name_.clear();
  return {};
}

Result<void> PartialFile::publish_new() {
  PENSTOCK_TRY(directory_.rename_new(partial_name_, name_));
  partial_name_.clear();
  return {};
}

}  // namespace penstock
