#include "swap/store/store_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

#include "alloc/excerpt.h"

namespace penstock {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::size_t kTextBytesMax = 512;
// `penstock inspect` holds the lock for a moment to learn who writes: no reason to refuse a writer.
constexpr std::chrono::milliseconds kPatience{500};
constexpr std::chrono::milliseconds kPause{5};

std::string describe_this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    host[0] = '?';
  }
  std::string program;
  std::getline(std::ifstream("/proc/self/comm"), program);
  std::string text = fmt::format("process {} ({}) on {}", ::getpid(), program, host.data());
  // Launchers of jobs (torchrun) say who is who.
  if (const char* const rank = std::getenv("RANK"); rank != nullptr && *rank != '\0') {
    text += fmt::format(", rank {}", rank);
  }
  return text.substr(0, kTextBytesMax);
}

// What the holder wrote; a process that has just locked the file may not have written yet.
std::string read_holder(const File& file) {
  const Result<std::uint64_t> size = file.size_bytes();
  std::string text(size ? std::min<std::uint64_t>(*size, kTextBytesMax) : 0, '\0');
  if (text.empty() || file.read_at(0, std::as_writable_bytes(std::span(text))).has_error()) {
    return "another process";
  }
  return excerpt(text);
}

// Over what is there, so that a full drive has room for it. Where there is none, the lock holds all
// the same, without the name of its holder.
Result<void> sign(const File& file) {
  const std::string text = describe_this_process();
  const Result<void> written = file.write_at(0, std::as_bytes(std::span(text)));
  if (written.has_error() && !written.error().is_full()) {
    return written;
  }
  return file.truncate(written.has_value() ? text.size() : 0);
}

Error in_use(const std::string& directory, const std::string& user) {
  return system_error(EBUSY, fmt::format("cannot use the store {}: {}", directory, user),
                      directory);
}

}  // namespace

Result<StoreLock> StoreLock::take(Directory& directory, Use use) {
  if (use == Use::kRead) {
    return take_to_read(directory);
  }
  Result<File> file = directory.open(kLockName, File::Access::kCreate, DirectMode::kBuffered);
  PENSTOCK_TRY(file);
  for (auto waited = std::chrono::milliseconds::zero();; waited += kPause) {
    const Result<bool> locked = file->try_lock();
    PENSTOCK_TRY(locked);
    if (*locked) {
      break;
    }
    const Result<bool> shared = file->try_lock(File::Lock::kShared);
    if (shared.has_error() || !*shared) {
      return in_use(directory.path(), read_holder(*file) + " writes to it");
    }
    PENSTOCK_TRY(file->unlock());
    if (waited >= kPatience) {
      return in_use(directory.path(), "another process reads it");
    }
    std::this_thread::sleep_for(kPause);
  }
  PENSTOCK_TRY(sign(*file));
  return StoreLock(std::move(file).value());
}

Result<StoreLock> StoreLock::take_to_read(Directory& directory) {
  Result<File> file = directory.open(kLockName, File::Access::kRead, DirectMode::kBuffered);
  if (file.has_error()) {
    return file.error().system_errno() == ENOENT ? Result<StoreLock>(StoreLock(std::nullopt))
                                                 : std::move(file).error();
  }
  const Result<bool> locked = file->try_lock(File::Lock::kShared);
  PENSTOCK_TRY(locked);
  if (!*locked) {
    return in_use(directory.path(), read_holder(*file) + " writes to it");
  }
  return StoreLock(std::move(file).value());
}

std::optional<std::string> StoreLock::holder(Directory& directory) {
  const Result<File> file = directory.open(kLockName, File::Access::kRead, DirectMode::kBuffered);
  if (file.has_error()) {
    return std::nullopt;
  }
  const Result<bool> locked = file->try_lock(File::Lock::kShared);
  return locked.has_error() || *locked ? std::nullopt : std::optional(read_holder(*file));
}

}  // namespace penstock
