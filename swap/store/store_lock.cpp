#include "swap/store/store_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "alloc/excerpt.h"

namespace penstock {
namespace {

constexpr std::size_t kTextBytesMax = 512;

std::string describe_this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    host[0] = '?';
  }
  std::string program;
  std::getline(std::ifstream("/proc/self/comm"), program);
  std::string text = fmt::format("process {} ({}) on {}", ::getpid(), program, host.data());
  // Launchers of jobs (torchrun, deepspeed) say who is who.
  if (const char* const rank = std::getenv("RANK"); rank != nullptr && *rank != '\0') {
    text += fmt::format(", rank {}", rank);
  }
  return text.substr(0, kTextBytesMax);
}

std::string lock_path(const std::string& directory) {
  return directory + "/lock";
}

// What the holder wrote; whoever has just locked the file may not have written yet.
std::string read_holder(const File& file) {
  const Result<std::uint64_t> size = file.size_bytes();
  std::string text(size ? std::min<std::uint64_t>(*size, kTextBytesMax) : 0, '\0');
  if (text.empty() || file.read_at(0, std::as_writable_bytes(std::span(text))).has_error()) {
    return "another process";
  }
  return excerpt(text);
}

bool cannot_be_written(const Error& error) {
  const int number = error.system_errno();
  return number == EROFS || number == EACCES || number == EPERM;
}

Result<void> sign(const File& file) {
  PENSTOCK_TRY(file.truncate(0));
  const std::string text = describe_this_process();
  return file.write_at(0, std::as_bytes(std::span(text)));
}

}  // namespace

Result<StoreLock> StoreLock::take(FileSystem& system, const std::string& directory, Use use) {
  const std::string path = lock_path(directory);
  bool writable = true;
  Result<File> file = system.open(path, File::Access::kCreate, DirectMode::kBuffered);
  if (file.has_error() && use == Use::kRead && cannot_be_written(file.error())) {
    writable = false;
    file = system.open(path, File::Access::kRead, DirectMode::kBuffered);
    if (file.has_error() && file.error().system_errno() == ENOENT) {
      return StoreLock(std::nullopt);
    }
  }
  if (file.has_error()) {
    return std::move(file).error();
  }
  Result<bool> locked = file->try_lock();
  if (locked.has_error()) {
    return std::move(locked).error();
  }
  if (!*locked) {
    return system_error(
        EBUSY, fmt::format("cannot use the store {}: {} uses it", directory, read_holder(*file)),
        directory);
  }
  if (writable) {
    // A full drive is no reason to keep anybody from reading.
    if (Result<void> signed_in = sign(*file); signed_in.has_error() && use == Use::kWrite) {
      return std::move(signed_in).error();
    }
  }
  return StoreLock(std::move(file).value());
}

std::optional<std::string> StoreLock::holder(FileSystem& system, const std::string& directory) {
  const Result<File> file =
      system.open(lock_path(directory), File::Access::kRead, DirectMode::kBuffered);
  if (file.has_error()) {
    return std::nullopt;
  }
  const Result<bool> locked = file->try_lock();
  return locked.has_error() || *locked ? std::nullopt : std::optional(read_holder(*file));
}

}  // namespace penstock
