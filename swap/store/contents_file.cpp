#include "swap/store/contents_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace penstock {
namespace {

// Writes that io_uring has begun may outlive a process that was killed, and land where another
// content lies by then. They keep the file open, and with it the lock on it.
Result<void> lock_contents(const File& file, File::Lock kind) {
  constexpr std::chrono::seconds kPatience{30};
  constexpr std::chrono::milliseconds kPause{2};
  for (auto waited = std::chrono::milliseconds::zero(); waited < kPatience; waited += kPause) {
    const Result<bool> locked = file.try_lock(kind);
    PENSTOCK_TRY(locked);
    if (*locked) {
      return {};
    }
    std::this_thread::sleep_for(kPause);
  }
  return system_error(EBUSY,
                      fmt::format("cannot use {}: another process has it locked, or writes of one "
                                  "that was killed do not end",
                                  file.path()),
                      file.path());
}

// What is written to a shorter one would have no room of its own.
Result<void> check_long_enough(const File& file, std::uint64_t contents_end) {
  const Result<std::uint64_t> size = file.size_bytes();
  if (size.has_error() || *size >= contents_end) {
    return {};
  }
  return fault(Fault::kCorrupt,
               fmt::format("{} is cut short: it has {} bytes, and contents end at {}; restore the "
                           "file, or save what is whole (penstock export --skip-damaged)",
                           file.path(), *size, contents_end),
               file.path());
}

bool is_refused(const Error& error) {
  const int number = error.system_errno();
  return number == EROFS || number == EACCES || number == EPERM;
}

}  // namespace

Result<ContentsFile> open_contents(Directory& place, const std::string& name,
                                   std::uint64_t contents_end) {
  const bool holds_contents = contents_end > 0;
  Result<File> file = place.open(
      name, holds_contents ? File::Access::kReadWrite : File::Access::kCreate, DirectMode::kAuto);
  const bool is_read_only = holds_contents && file.has_error() && is_refused(file.error());
  if (is_read_only) {
    file = place.open(name, File::Access::kRead, DirectMode::kAuto);
  }
  PENSTOCK_TRY(file);
  PENSTOCK_TRY(check_long_enough(*file, contents_end));
  PENSTOCK_TRY(lock_contents(*file, is_read_only ? File::Lock::kShared : File::Lock::kExclusive));
  return ContentsFile{std::move(file).value(), is_read_only};
}

Result<ContentsFile> read_contents(Directory& place, const std::string& name) {
  Result<File> file = place.open(name, File::Access::kRead, DirectMode::kAuto);
  PENSTOCK_TRY(file);
  return ContentsFile{std::move(file).value(), true};
}

std::optional<std::string> find_contents(Directory& place, const std::string& name) {
  const Result<File> file = place.open(name, File::Access::kRead, DirectMode::kAuto);
  const Result<std::uint64_t> size = file ? file->size_bytes() : file.error();
  return size.has_value() && *size > 0 ? std::optional(file->path()) : std::nullopt;
}

bool is_contents_file(const std::string& name) {
  return name.starts_with("tensors-") && name.ends_with(".data");
}

}  // namespace penstock
