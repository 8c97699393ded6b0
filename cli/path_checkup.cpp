#include "cli/path_checkup.h"

#include <fmt/format.h>
#include <linux/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "alloc/bytes.h"
#include "alloc/page_source.h"

namespace penstock::cli {
namespace {

// Block quotas are counted in units of this.
constexpr std::uint64_t kQuotaBlockBytes = 1024;
constexpr std::array<std::string_view, 6> kNetworkFileSystems{"nfs",  "nfs4", "cifs",
                                                              "smb3", "ceph", "lustre"};

void read_space(PathCheckup& checkup) {
  struct statvfs space{};
  if (::statvfs(checkup.path.c_str(), &space) == 0) {
    checkup.free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
    checkup.total_bytes = std::uint64_t{space.f_blocks} * space.f_frsize;
  }
}

// quotactl_fd(2) asks by an open file, so that no device needs to be found; older kernels have
// none.
void read_quota(const File& file, PathCheckup& checkup) {
#ifdef SYS_quotactl_fd
  if_dqblk quota{};
  const long result =
      ::syscall(SYS_quotactl_fd, file.fd(), QCMD(Q_GETQUOTA, USRQUOTA), ::getuid(), &quota);
  if (result == 0 && (quota.dqb_valid & QIF_BLIMITS) != 0 && quota.dqb_bhardlimit != 0) {
    checkup.quota_bytes = quota.dqb_bhardlimit * kQuotaBlockBytes;
    checkup.quota_used_bytes = quota.dqb_curspace;
  }
#else
  static_cast<void>(file);
  static_cast<void>(checkup);
#endif
}

bool is_rotating(dev_t device) {
  // A partition has no queue of its own; its disk is the directory above.
  const std::string base = fmt::format("/sys/dev/block/{}:{}", major(device), minor(device));
  for (const char* queue : {"/queue/rotational", "/../queue/rotational"}) {
    std::ifstream file(base + queue);
    if (int value = 0; file >> value) {
      return value == 1;
    }
  }
  return false;
}

void advise(PathCheckup& checkup) {
  const bool is_network = std::find(kNetworkFileSystems.begin(), kNetworkFileSystems.end(),
                                    checkup.file_system) != kNetworkFileSystems.end() ||
                          checkup.file_system.starts_with("fuse");
  if (checkup.file_system == "tmpfs" || checkup.file_system == "ramfs") {
    checkup.advice.push_back(fmt::format(
        "{} is a {}: what is swapped there stays in RAM, so that nothing is saved; choose a "
        "directory on a drive",
        checkup.path, checkup.file_system));
  } else if (is_network) {
    checkup.advice.push_back(fmt::format("{} is on {}, a network file system; choose a local drive",
                                         checkup.path, checkup.file_system));
  } else if (checkup.is_rotating) {
    checkup.advice.push_back(
        fmt::format("the system calls the disk under {} a rotating one; unless that is wrong "
                    "(virtual disks often "
                    "are called so), choose an SSD",
                    checkup.path));
  }
  if (checkup.usable && !checkup.direct.supported && checkup.file_system != "tmpfs") {
    checkup.advice.push_back(fmt::format(
        "{} has no direct I/O ({}): everything passes through the page cache and uses RAM there; "
        "ext4 and xfs have it on most drives",
        checkup.path, checkup.direct.reason));
  }
  if (checkup.quota_bytes && checkup.quota_used_bytes) {
    const std::uint64_t left =
        *checkup.quota_bytes - std::min(*checkup.quota_bytes, *checkup.quota_used_bytes);
    if (left < checkup.free_bytes) {
      checkup.advice.push_back(
          fmt::format("your quota leaves {} on {}, less than the {} that are free",
                      format_bytes(left), checkup.path, format_bytes(checkup.free_bytes)));
    }
  }
}

// Whether there is a directory at all; File::create_scratch() would make one.
bool is_directory(PathCheckup& checkup, dev_t& device) {
  struct stat facts{};
  if (::stat(checkup.path.c_str(), &facts) != 0) {
    checkup.problem =
        errno == ENOENT
            ? fmt::format("{} does not exist; create it (training would) or name another directory",
                          checkup.path)
            : fmt::format("cannot look at {}: {}", checkup.path, std::strerror(errno));
    return false;
  }
  if (!S_ISDIR(facts.st_mode)) {
    checkup.problem = fmt::format("{} is not a directory", checkup.path);
    return false;
  }
  device = facts.st_dev;
  return true;
}

// One block into a scratch file and back: what statx promises is not always what a file system
// does.
Result<void> try_direct_io(const File& file) {
  constexpr std::size_t bytes = kBlockBytes;  // the least that is ever moved
  PENSTOCK_TRY(file.reserve(0, bytes));
  const Result<Memory> memory = PageSource::make()->allocate(2 * bytes);
  PENSTOCK_TRY(memory);
  const std::span<std::byte> written = memory->span().first(bytes);
  const std::span<std::byte> read = memory->span().subspan(bytes, bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    written[i] = static_cast<std::byte>(i * 131 + 7);
  }
  PENSTOCK_TRY(file.write_at(0, written));
  PENSTOCK_TRY(file.read_at(0, read));
  return std::ranges::equal(written, read)
             ? Result<void>()
             : fault(Fault::kCorrupt,
                     fmt::format("{} gave back other bytes than were written", file.path()));
}

}  // namespace

PathCheckup check_path(const std::string& path, const std::vector<Mount>& mounts) {
  PathCheckup checkup;
  checkup.path = path;
  dev_t device = 0;
  if (!is_directory(checkup, device)) {
    return checkup;
  }
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  if (const Mount* mount = error ? nullptr : mount_of(mounts, canonical.string())) {
    checkup.file_system = mount->file_system;
    checkup.device = mount->source;
  }
  checkup.is_rotating = is_rotating(device);
  read_space(checkup);
  const Result<File> scratch = File::create_scratch(path);
  if (!scratch) {
    checkup.problem = scratch.error().message;
  } else {
    checkup.direct = scratch->direct();
    read_quota(*scratch, checkup);
    const Result<void> trial = try_direct_io(*scratch);
    checkup.usable = trial.has_value();
    checkup.problem = trial.has_value() ? std::string() : trial.error().message;
  }
  advise(checkup);
  return checkup;
}

}  // namespace penstock::cli
