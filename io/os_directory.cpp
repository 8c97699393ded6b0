#include "io/os_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "alloc/check.h"
#include "io/direct_io_probe.h"
#include "io/os_call.h"

namespace penstock {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

Error refused(int error, const std::string& path, const std::string& why) {
  Error refusal = system_error(error, path, path);
  refusal.message = fmt::format("cannot use {}: {}", path, why);
  return refusal;
}

class OsDirectory final : public Directory {
 public:
  OsDirectory(FileSystem& system, int fd, ::uid_t owner, std::string path)
      : Directory(std::move(path)), system_(system), fd_(fd), owner_(owner) {}
  ~OsDirectory() override { ::close(fd_); }
  OsDirectory(const OsDirectory&) = delete;
  OsDirectory& operator=(const OsDirectory&) = delete;

  Result<File> open(const std::string& name, File::Access access, DirectMode mode) override {
    const std::string path = path_of(name);
    PENSTOCK_CHECK(name.find('/') == std::string::npos, "{} is no name in a directory", name);
    Result<int> fd = os_open(fd_, name, access, path, O_NOFOLLOW);
    if (fd.has_error()) {
      const bool link = fd.error().system_errno() == ELOOP;
      return link ? refused(ELOOP, path, "it is a symbolic link, which is not followed here")
                  : std::move(fd).error();
    }
    const bool is_new = access == File::Access::kExclusive;
    const Result<void> checked = check(*fd, path, is_new);
    if (checked.has_error()) {
      ::close(*fd);
      return checked.error();
    }
    return make_file(system_, *fd, path, probe_direct_io(*fd, path, mode));
  }

  Result<std::vector<std::string>> list() override {
    // A descriptor of its own, since a position belongs to it.
    const int fd = retry_interrupted([this] { return ::openat(fd_, ".", kDirectoryFlags); });
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(fd < 0 ? nullptr : ::fdopendir(fd),
                                                     ::closedir);
    if (stream == nullptr) {
      const int error = errno;
      if (fd >= 0) {
        ::close(fd);
      }
      return cannot(error, "list");
    }
    std::vector<std::string> names;
    errno = 0;
    while (const ::dirent* const entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") {
        names.push_back(name);
      }
    }
    if (errno != 0) {
      return cannot(errno, "list");
    }
    std::ranges::sort(names);
    return names;
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (::renameat(fd_, from.c_str(), fd_, to.c_str()) != 0) {
      return system_error(errno, fmt::format("cannot rename {} to {}", path_of(from), path_of(to)),
                          path_of(to));
    }
    return {};
  }

  Result<void> rename_new(const std::string& from, const std::string& to) override {
    if (::renameat2(fd_, from.c_str(), fd_, to.c_str(), RENAME_NOREPLACE) == 0) {
      return {};
    }
    int problem = errno;
    if (problem == EINVAL || problem == ENOSYS) {  // some file systems cannot
      struct ::stat ignored{};
      if (::fstatat(fd_, to.c_str(), &ignored, AT_SYMLINK_NOFOLLOW) != 0) {
        return rename(from, to);
      }
      problem = EEXIST;
    }
    return system_error(problem, fmt::format("cannot rename {} to {}", path_of(from), path_of(to)),
                        path_of(to));
  }

  Result<void> remove(const std::string& name) override {
    if (::unlinkat(fd_, name.c_str(), 0) != 0) {
      return system_error(errno, fmt::format("cannot remove {}", path_of(name)), path_of(name));
    }
    return {};
  }

  Result<void> sync() override {
    const int error = -result_of(retry_interrupted([this] { return ::fsync(fd_); }));
    // Some file systems (FUSE, network ones) know no fsync of directories, and need none.
    if (error != 0 && error != EINVAL && error != ENOSYS) {
      return cannot(error, "sync");
    }
    return {};
  }

 private:
  Error cannot(int error, const char* verb) const {
    return system_error(error, fmt::format("cannot {} the directory {}", verb, path()), path());
  }

  /// `is_new`: this process has just made it, whatever owner a network file system shows.
  Result<void> check(int fd, const std::string& path, bool is_new) const {
    struct ::stat facts{};
    if (::fstat(fd, &facts) != 0) {
      return system_error(errno, fmt::format("cannot look at {}", path), path);
    }
    if (!S_ISREG(facts.st_mode)) {
      return refused(EINVAL, path, "it is not a regular file");
    }
    if (facts.st_nlink > 1) {
      return refused(EMLINK, path,
                     fmt::format("the file has {} names (hard links), and a change would reach all "
                                 "of them; copy it instead",
                                 facts.st_nlink));
    }
    const bool is_ours =
        is_new || facts.st_uid == ::geteuid() || facts.st_uid == 0 || facts.st_uid == owner_;
    if (!is_ours) {
      return refused(EPERM, path,
                     fmt::format("it belongs to user {}, not to this process's user {}, to root or "
                                 "to the owner of the directory",
                                 facts.st_uid, ::geteuid()));
    }
    return {};
  }

  FileSystem& system_;
  const int fd_;
  const ::uid_t owner_;
};

}  // namespace

Result<std::unique_ptr<Directory>> open_os_directory(FileSystem& system, const std::string& path) {
  const auto cannot = [&path](int error) {
    return system_error(error, fmt::format("cannot open the directory {}", path), path);
  };
  if (path.find('\0') != std::string::npos) {
    return cannot(EINVAL);
  }
  const int fd = retry_interrupted([&] { return ::open(path.c_str(), kDirectoryFlags); });
  if (fd < 0) {
    return cannot(errno);
  }
  struct ::stat facts{};
  if (::fstat(fd, &facts) != 0) {
    const int error = errno;
    ::close(fd);
    return cannot(error);
  }
  return std::unique_ptr<Directory>(std::make_unique<OsDirectory>(system, fd, facts.st_uid, path));
}

}  // namespace penstock
