#include "bench/workload/file_contents.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/workload/block_pattern.h"
#include "bench/workload/file_set.h"
#include "io/file.h"

namespace penstock::bench {
namespace {

constexpr std::uint64_t kStepBytes = 4 * kMiB;

// Where the first byte is missing: a hole, space that was reserved and never written, or the end.
// Reading there would not ask the drive for anything.
std::uint64_t first_missing_byte(const File& file, const FileFacts& facts) {
  if (facts.device) {
    return facts.bytes;
  }
  const ::off_t hole = ::lseek(file.fd(), 0, SEEK_HOLE);
  return hole < 0 ? facts.bytes : static_cast<std::uint64_t>(hole);
}

}  // namespace

Result<FileFacts> look_at(const std::string& path) {
  struct ::stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      return FileFacts{};
    }
    return system_error(errno, fmt::format("cannot look at {}", path), path);
  }
  if (S_ISDIR(info.st_mode)) {
    return system_error(EISDIR, fmt::format("cannot open {}", path), path);
  }
  if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) {
    return system_error(
        EINVAL, fmt::format("{} is a FIFO or a socket; jobs run on files and drives", path), path);
  }
  FileFacts facts{true, S_ISBLK(info.st_mode), static_cast<std::uint64_t>(info.st_size)};
  if (facts.device) {
    const Result<File> device = File::open(path, File::Access::kRead, DirectMode::kBuffered);
    PENSTOCK_TRY(device);
    const ::off_t end = ::lseek(device->fd(), 0, SEEK_END);
    if (end < 0) {
      return system_error(errno, fmt::format("cannot ask for the size of {}", path), path);
    }
    facts.bytes = static_cast<std::uint64_t>(end);
  }
  return facts;
}

Result<void> write_missing_contents(const Job& job, const std::string& path, std::uint32_t file,
                                    std::uint64_t end, const std::atomic<bool>& stop) {
  const Result<FileFacts> facts = look_at(path);
  PENSTOCK_TRY(facts);
  if (facts->exists) {
    const Result<File> old = File::open(path, File::Access::kRead, DirectMode::kBuffered);
    PENSTOCK_TRY(old);
    if (first_missing_byte(*old, *facts) >= end) {
      return {};
    }
  }
  const Result<File> target = File::open(path, File::Access::kCreate, DirectMode::kBuffered);
  PENSTOCK_TRY(target);
  PENSTOCK_TRY(target->reserve(0, end));
  const Result<Memory> memory = PageSource::make()->allocate(kStepBytes);
  PENSTOCK_TRY(memory);
  const BlockPattern pattern(job.randseed);
  std::uint64_t at = facts->exists ? first_missing_byte(*target, *facts) : 0;
  while (at < end && !stop.load(std::memory_order_relaxed)) {
    const std::span<std::byte> step =
        memory->span().first(std::min<std::uint64_t>(kStepBytes, end - at));
    pattern.fill(step, file, at, 0);
    PENSTOCK_TRY(target->write_at(at, step));
    at += step.size();
  }
  return FileSet::sync(*target);
}

}  // namespace penstock::bench
