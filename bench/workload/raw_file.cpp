#include "bench/workload/raw_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/workload/mixed.h"

namespace penstock::bench {
namespace {

constexpr std::uint64_t kStepBytes = 4 * kMiB;

/// What there is under a path before a job begins.
struct FileFacts {
  bool exists = false;
  bool device = false;  ///< a block device: never made, grown or removed
  std::uint64_t bytes = 0;
};

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

/// Where contents are missing: a hole, space that was reserved and never written, or what is behind
/// the end. Reading there would not ask the drive for anything.
struct Gap {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Those before `end`, in order. What lies between them is the user's.
Result<std::vector<Gap>> find_gaps(const std::string& path, const FileFacts& facts,
                                   std::uint64_t end) {
  std::vector<Gap> gaps;
  if (facts.device) {
    return gaps;
  }
  const std::uint64_t inside = std::min(facts.bytes, end);
  if (inside != 0) {
    const Result<File> file = File::open(path, File::Access::kRead, DirectMode::kBuffered);
    PENSTOCK_TRY(file);
    for (std::uint64_t at = 0; at < inside;) {
      const ::off_t hole = ::lseek(file->fd(), static_cast<::off_t>(at), SEEK_HOLE);
      if (hole < 0 || static_cast<std::uint64_t>(hole) >= inside) {
        break;  // none, or a file system that does not say
      }
      const ::off_t data = ::lseek(file->fd(), hole, SEEK_DATA);
      at = data < 0 ? inside : std::min(static_cast<std::uint64_t>(data), inside);
      gaps.push_back({static_cast<std::uint64_t>(hole), at});
    }
  }
  if (inside < end) {
    gaps.push_back({inside, end});
  }
  return gaps;
}

/// `until`: up to where there are contents, as the file grows.
Result<void> fill_gaps(const File& target, const std::vector<Gap>& gaps,
                       const std::atomic<bool>& stop, std::uint64_t& until) {
  PENSTOCK_TRY(target.reserve(0, gaps.back().end));
  const Result<Memory> memory = PageSource::make()->allocate(kStepBytes);
  PENSTOCK_TRY(memory);
  const std::uint64_t grows_from = until;
  for (const Gap& gap : gaps) {
    for (std::uint64_t at = gap.begin; at < gap.end && !stop.load(std::memory_order_relaxed);) {
      const std::span<std::byte> step =
          memory->span().first(std::min<std::uint64_t>(kStepBytes, gap.end - at));
      if (gap.begin < grows_from) {
        std::ranges::fill(step, std::byte{0});  // as a hole reads: the file's content stays
      } else {
        fill_with_noise(step, mixed(at));
      }
      PENSTOCK_TRY(target.write_at(at, step));
      at += step.size();
      until = std::max(until, at);
    }
  }
  return target.sync();
}

Result<void> write_missing_contents(const std::string& path, const FileFacts& facts,
                                    std::uint64_t end, const std::atomic<bool>& stop) {
  const Result<std::vector<Gap>> gaps = find_gaps(path, facts, end);
  PENSTOCK_TRY(gaps);
  if (gaps->empty()) {
    return {};
  }
  const Result<File> target = File::open(path, File::Access::kCreate, DirectMode::kBuffered);
  PENSTOCK_TRY(target);
  std::uint64_t until = facts.bytes;
  const Result<void> done = fill_gaps(*target, *gaps, stop, until);
  // The next job would take the space behind it for a hole of the user's, and measure zeros.
  const Result<void> cut = until < end ? target->truncate(until) : Result<void>();
  return done.has_value() ? cut : done;
}

Result<void> check_direct_io(const Job& job, const File& file) {
  if (!job.direct.value_or(false)) {
    return {};
  }
  const DirectIo& direct = file.direct();
  if (!direct.supported) {
    return system_error(
        EINVAL, fmt::format("direct=1 is not possible on {} ({})", file.path(), direct.reason),
        file.path());
  }
  if (job.raw_block_bytes() % direct.offset_alignment != 0) {
    return system_error(
        EINVAL,
        fmt::format("`bs` of {} bytes is no multiple of {}, which direct I/O on {} needs",
                    job.raw_block_bytes(), direct.offset_alignment, file.path()),
        file.path());
  }
  return {};
}

}  // namespace

std::string file_path(const Job& job, std::uint32_t thread) {
  std::string name = job.filename;
  if (name.empty()) {
    name = fmt::format("{}.{}.0", job.name, thread);
    std::ranges::replace(name, '/', '_');
  }
  return job.directory.empty() || name.starts_with('/') ? name : job.directory + "/" + name;
}

Result<std::uint64_t> file_bytes(const Job& job, std::uint32_t thread) {
  if (job.size != 0) {
    return job.size;
  }
  const std::string path = file_path(job, thread);
  if (job.engine == EngineKind::kNull) {
    return fault(Fault::kInvalidArgument, "the null engine has no file to ask: give `size`");
  }
  const Result<FileFacts> facts = look_at(path);
  PENSTOCK_TRY(facts);
  std::uint64_t bytes = facts->bytes;
  if (job.size_percent != 0) {
    const double share = static_cast<double>(bytes) * job.size_percent / 100;
    bytes = static_cast<std::uint64_t>(share) / job.raw_block_bytes() * job.raw_block_bytes();
  }
  if (bytes < job.raw_block_bytes()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} has {} bytes of its own, of which the job takes less than one "
                             "block of {}: give a larger `size`",
                             path, facts->bytes, job.raw_block_bytes()));
  }
  return bytes;
}

Result<RawFile> open_raw_file(const Job& job, std::uint32_t thread, const std::atomic<bool>& stop) {
  const Result<std::uint64_t> bytes = file_bytes(job, thread);
  PENSTOCK_TRY(bytes);
  if (job.engine == EngineKind::kNull) {
    Result<File> file = File::open("/dev/null", File::Access::kReadWrite, DirectMode::kBuffered);
    PENSTOCK_TRY(file);
    return RawFile{std::move(*file), *bytes};
  }
  const std::string path = file_path(job, thread);
  const Result<FileFacts> facts = look_at(path);
  PENSTOCK_TRY(facts);
  if (facts->device && facts->bytes < *bytes) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} has {} bytes, and the job wants {}: lower `size`", path,
                             facts->bytes, *bytes));
  }
  if (job.direction.reads && !facts->device) {
    PENSTOCK_TRY(write_missing_contents(path, *facts, *bytes, stop));
  }
  const bool writes = job.direction.writes;
  const File::Access access = !writes         ? File::Access::kRead
                              : facts->device ? File::Access::kReadWrite
                                              : File::Access::kCreate;
  Result<File> file = File::open(
      path, access, job.direct.value_or(false) ? DirectMode::kAuto : DirectMode::kBuffered);
  PENSTOCK_TRY(file);
  PENSTOCK_TRY(check_direct_io(job, *file));
  if (writes && !facts->device && facts->bytes < *bytes) {
    PENSTOCK_TRY(file->reserve(0, *bytes));
  }
  // A wish: what is dirty stays, and nothing is wrong where the kernel does otherwise.
  (void)::posix_fadvise(file->fd(), 0, static_cast<::off_t>(*bytes), POSIX_FADV_DONTNEED);
  return RawFile{std::move(*file), *bytes};
}

Result<void> remove_file(const std::string& path) {
  struct ::stat info{};
  const bool regular = ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (regular && ::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return system_error(errno, fmt::format("cannot remove {}", path), path);
  }
  return {};
}

}  // namespace penstock::bench
