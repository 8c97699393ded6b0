#include "bench/workload/file_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "bench/workload/file_contents.h"

namespace penstock::bench {
namespace {

// fio's list of directories, which threads take in turns: `a:b`, where `\:` is a colon.
std::vector<std::string> split_directories(const std::string& text) {
  std::vector<std::string> directories(1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == ':') {
      directories.back() += text[++at];
    } else if (text[at] == ':') {
      directories.emplace_back();
    } else {
      directories.back() += text[at];
    }
  }
  return directories;
}

// Errors of a job's files are told once, with what to do.
Result<void> check_direct_io(const Job& job, const File& file, const FileRegion& region) {
  if (!job.direct.value_or(false)) {
    return {};
  }
  const DirectIo& direct = file.direct();
  if (!direct.supported) {
    return system_error(
        EINVAL, fmt::format("direct=1 is not possible on {} ({})", file.path(), direct.reason),
        file.path());
  }
  const auto check = [&](std::uint64_t bytes, const char* key) -> Result<void> {
    if (bytes % direct.offset_alignment == 0) {
      return {};
    }
    return system_error(EINVAL,
                        fmt::format("`{}` of {} bytes is no multiple of {}, which direct "
                                    "I/O on {} needs",
                                    key, bytes, direct.offset_alignment, file.path()),
                        file.path());
  };
  PENSTOCK_TRY(check(region.begin, "offset"));
  for (const IoKind kind : {IoKind::kRead, IoKind::kWrite}) {
    for (const BlockShare& block : RequestSource::blocks_of(job, kind)) {
      PENSTOCK_TRY(check(block.bytes, "bs"));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> file_paths(const Job& job, std::uint32_t thread) {
  const std::vector<std::string> directories = split_directories(job.directory);
  const std::string& directory = directories[thread % directories.size()];
  const std::string prefix = directory.empty() ? "" : directory + "/";
  std::vector<std::string> paths;
  for (const std::string& name : job.filenames) {
    paths.push_back(name.starts_with('/') ? name : prefix + name);
  }
  for (std::uint32_t file = 0; job.filenames.empty() && file < job.nrfiles; ++file) {
    std::string name = fmt::format("{}.{}.{}", job.name, thread, file);
    std::ranges::replace(name, '/', '_');
    paths.push_back(prefix + name);
  }
  return paths;
}

Result<FileSet> FileSet::open(const Job& job, std::uint32_t thread, const std::atomic<bool>& stop) {
  if (job.engine == EngineKind::kNull) {
    return open_nowhere(job);
  }
  FileSet set;
  const std::vector<std::string> paths = file_paths(job, thread);
  set.regions_.reserve(paths.size());
  for (const std::string& path : paths) {
    FileRegion region{job.offset, job.size / paths.size()};
    if (job.size == 0) {
      const Result<FileFacts> facts = look_at(path);
      PENSTOCK_TRY(facts);
      region.bytes = facts->bytes > job.offset ? facts->bytes - job.offset : 0;
    }
    if (region.bytes == 0) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("{} has no size of its own: give `size`", path));
    }
    set.regions_.push_back(region);
    PENSTOCK_TRY(set.add(job, path, stop));
  }
  if (job.invalidate) {
    set.drop_cache();
  }
  return set;
}

Result<FileSet> FileSet::open_nowhere(const Job& job) {
  const std::size_t count =
      std::max<std::size_t>(job.filenames.empty() ? job.nrfiles : job.filenames.size(), 1);
  if (job.size == 0) {
    return fault(Fault::kInvalidArgument, "the null engine has no files to ask: give `size`");
  }
  FileSet set;
  set.nowhere_ = true;
  for (std::size_t index = 0; index < count; ++index) {
    Result<File> file = File::open("/dev/null", File::Access::kReadWrite, DirectMode::kBuffered);
    PENSTOCK_TRY(file);
    set.files_.push_back(std::move(*file));
    set.regions_.push_back({job.offset, job.size / count});
  }
  return set;
}

Result<void> FileSet::add(const Job& job, const std::string& path, const std::atomic<bool>& stop) {
  const FileRegion& region = regions_.back();
  const std::uint64_t end = region.begin + region.bytes;
  const Result<FileFacts> before = look_at(path);
  PENSTOCK_TRY(before);
  if (before->device && before->bytes < end) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} has {} bytes, and the job wants {}: lower `size`", path,
                             before->bytes, end));
  }
  if (job.direction.reads && !before->device) {
    const auto index = static_cast<std::uint32_t>(files_.size());
    PENSTOCK_TRY(write_missing_contents(job, path, index, end, stop));
  }
  const bool writes = job.direction.writes;
  const bool direct = job.direct.value_or(false);
  const File::Access access = !writes          ? File::Access::kRead
                              : before->device ? File::Access::kReadWrite
                                               : File::Access::kCreate;
  Result<File> file = File::open(path, access, direct ? DirectMode::kAuto : DirectMode::kBuffered);
  PENSTOCK_TRY(file);
  PENSTOCK_TRY(check_direct_io(job, *file, region));
  if (writes && !before->device && before->bytes < end && job.fallocate.value_or(true)) {
    PENSTOCK_TRY(file->reserve(0, end));
  }
  files_.push_back(std::move(*file));
  return {};
}

Result<void> FileSet::sync() const {
  for (const File& file : files_) {
    if (!nowhere_) {
      PENSTOCK_TRY(sync(file));
    }
  }
  return {};
}

Result<void> FileSet::sync(const File& file) {
  int result = -1;
  do {
    result = ::fsync(file.fd());
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    return system_error(errno, fmt::format("cannot sync {}", file.path()), file.path());
  }
  return {};
}

// A wish: what is dirty stays, and nothing is wrong where the kernel does otherwise.
void FileSet::drop_cache() const {
  for (std::size_t index = 0; index < files_.size(); ++index) {
    const FileRegion& region = regions_[index];
    (void)::posix_fadvise(files_[index].fd(), static_cast<::off_t>(region.begin),
                          static_cast<::off_t>(region.bytes), POSIX_FADV_DONTNEED);
  }
}

Result<void> FileSet::unlink() const {
  for (const File& file : files_) {
    const Result<FileFacts> facts = look_at(file.path());
    PENSTOCK_TRY(facts);
    if (nowhere_ || !facts->exists || facts->device) {
      continue;
    }
    if (::unlink(file.path().c_str()) != 0 && errno != ENOENT) {
      return system_error(errno, fmt::format("cannot remove {}", file.path()), file.path());
    }
  }
  return {};
}

}  // namespace penstock::bench
