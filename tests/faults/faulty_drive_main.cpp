// A file system in memory that fails by rules:
// `penstock_faulty_drive MOUNTPOINT`.
//
// Rules (faulty_file.h) are written to the file .faults at its top and hold as
// soon as that write has returned. Files may be unlinked while they are open,
// as scratch files are; there are directories, but no links, owners or times.
// Runs in the foreground, one request at a time, until it is unmounted or
// killed; then every file in use fails, as a drive's do that was pulled out.

#define FUSE_USE_VERSION 35

#include <fuse3/fuse.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "tests/faults/faulty_file.h"

namespace penstock {
namespace {

constexpr const char* kControlPath = "/.faults";

struct Entry {
  ::mode_t mode = 0;
  std::shared_ptr<FaultyFile> file;  // null: a directory
};

struct Drive {
  std::map<std::string, Entry> entries{{"/", {S_IFDIR | 0777, nullptr}}};
  DriveFaultRules rules;
};
Drive drive;

/// What an open file's handle points to: the file lives as long as it is
/// open anywhere.
using Handle = std::shared_ptr<FaultyFile>;
Handle& handle_of(const fuse_file_info* info) {
  return *reinterpret_cast<Handle*>(info->fh);
}
bool is_control(const char* path) {
  return path != nullptr && std::strcmp(path, kControlPath) == 0;
}

void describe(const Entry& entry, struct ::stat* facts) {
  *facts = {};
  facts->st_mode = entry.mode;
  facts->st_nlink = entry.file ? 1 : 2;
  facts->st_size = entry.file ? static_cast<::off_t>(entry.file->size_bytes()) : 0;
  facts->st_blocks = facts->st_size / 512;
  facts->st_blksize = FaultyFile::kBlockBytes;
}

int do_getattr(const char* path, struct ::stat* facts, fuse_file_info* info) {
  if (is_control(path)) {
    describe({S_IFREG | 0666, std::make_shared<FaultyFile>()}, facts);
    return 0;
  }
  if (info != nullptr && info->fh != 0) {
    describe({S_IFREG | 0600, handle_of(info)}, facts);
    return 0;
  }
  const auto found = drive.entries.find(path);
  if (found == drive.entries.end()) {
    return -ENOENT;
  }
  describe(found->second, facts);
  return 0;
}

int do_mkdir(const char* path, ::mode_t mode) {
  return drive.entries.emplace(path, Entry{S_IFDIR | mode, nullptr}).second ? 0 : -EEXIST;
}

int do_create(const char* path, ::mode_t mode, fuse_file_info* info) {
  auto file = std::make_shared<FaultyFile>();
  drive.entries[path] = {S_IFREG | mode, file};
  info->fh = reinterpret_cast<std::uint64_t>(new Handle(std::move(file)));
  return 0;
}

int do_open(const char* path, fuse_file_info* info) {
  if (is_control(path)) {
    return 0;
  }
  const auto found = drive.entries.find(path);
  if (found == drive.entries.end() || !found->second.file) {
    return -ENOENT;
  }
  info->fh = reinterpret_cast<std::uint64_t>(new Handle(found->second.file));
  return 0;
}

int do_release(const char*, fuse_file_info* info) {
  delete reinterpret_cast<Handle*>(info->fh);
  return 0;
}

int do_remove(const char* path) {
  return drive.entries.erase(path) == 1 ? 0 : -ENOENT;
}

int do_chmod(const char* path, ::mode_t mode, fuse_file_info*) {
  const auto found = drive.entries.find(path);
  if (found == drive.entries.end()) {
    return -ENOENT;
  }
  found->second.mode = (found->second.mode & S_IFMT) | (mode & ~static_cast<::mode_t>(S_IFMT));
  return 0;
}

/// A directory takes along what is in it.
int do_rename(const char* path, const char* target, unsigned int flags) {
  if (flags != 0) {
    return -EINVAL;
  }
  const std::string from = path;
  std::map<std::string, Entry> moved;
  std::erase_if(drive.entries, [&](auto& known) {
    const bool inside = known.first == from || known.first.starts_with(from + "/");
    if (inside) {
      moved[target + known.first.substr(from.size())] = std::move(known.second);
    }
    return inside;
  });
  for (auto& [name, entry] : moved) {
    drive.entries[name] = std::move(entry);
  }
  return moved.empty() ? -ENOENT : 0;
}

int do_truncate(const char*, ::off_t bytes, fuse_file_info* info) {
  if (info == nullptr || info->fh == 0) {
    return 0;  // of .faults, by a shell's `>`
  }
  handle_of(info)->resize(static_cast<std::uint64_t>(bytes));
  return 0;
}

/// Promises room without having any, as thin drives do.
int do_fallocate(const char*, int mode, ::off_t offset, ::off_t bytes, fuse_file_info* info) {
  if (mode != 0 || info->fh == 0) {
    return -EOPNOTSUPP;
  }
  FaultyFile& file = *handle_of(info);
  file.resize(std::max(file.size_bytes(), static_cast<std::uint64_t>(offset + bytes)));
  return 0;
}

int do_read(const char*, char* target, std::size_t bytes, ::off_t offset, fuse_file_info* info) {
  return info->fh == 0 ? 0
                       : handle_of(info)->read(drive.rules, target, bytes,
                                               static_cast<std::uint64_t>(offset));
}

int do_write(const char*, const char* source, std::size_t bytes, ::off_t offset,
             fuse_file_info* info) {
  if (info->fh == 0) {
    return drive.rules.obey({source, bytes}) ? static_cast<int>(bytes) : -EINVAL;
  }
  return handle_of(info)->write(drive.rules, source, bytes, static_cast<std::uint64_t>(offset));
}

/// An open directory's handle is what its entries begin with: only opening says the path.
int do_opendir(const char* path, fuse_file_info* info) {
  const bool is_top = std::strcmp(path, "/") == 0;
  info->fh =
      reinterpret_cast<std::uint64_t>(new std::string(is_top ? "/" : path + std::string("/")));
  return 0;
}

const std::string& prefix_of(const fuse_file_info* info) {
  return *reinterpret_cast<std::string*>(info->fh);
}

int do_releasedir(const char*, fuse_file_info* info) {
  delete &prefix_of(info);
  return 0;
}

int do_readdir(const char*, void* list, fuse_fill_dir_t add, ::off_t, fuse_file_info* info,
               fuse_readdir_flags) {
  const std::string& prefix = prefix_of(info);
  for (const auto& [name, entry] : drive.entries) {
    const bool inside = name.size() > prefix.size() && name.starts_with(prefix) &&
                        name.find('/', prefix.size()) == std::string::npos;
    if (inside) {
      add(list, name.c_str() + prefix.size(), nullptr, 0, fuse_fill_dir_flags{});
    }
  }
  return 0;
}

int do_statfs(const char*, struct ::statvfs* facts) {
  *facts = {};
  facts->f_bsize = facts->f_frsize = FaultyFile::kBlockBytes;
  facts->f_blocks = facts->f_bfree = facts->f_bavail = (std::uint64_t{1} << 30) / facts->f_frsize;
  facts->f_namemax = 255;
  return 0;
}

/// Unlinked files go on living under no name, and no cache stands between a
/// test and the drive.
void* do_init(fuse_conn_info*, fuse_config* config) {
  config->hard_remove = 1;
  config->nullpath_ok = 1;
  config->direct_io = 1;
  config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
  return nullptr;
}

fuse_operations operations() {
  fuse_operations all{};
  all.getattr = do_getattr;
  all.mkdir = do_mkdir;
  all.unlink = do_remove;
  all.rmdir = do_remove;
  all.chmod = do_chmod;
  all.rename = do_rename;
  all.truncate = do_truncate;
  all.open = do_open;
  all.read = do_read;
  all.write = do_write;
  all.statfs = do_statfs;
  all.release = do_release;
  all.opendir = do_opendir;
  all.readdir = do_readdir;
  all.releasedir = do_releasedir;
  all.init = do_init;
  all.create = do_create;
  all.fallocate = do_fallocate;
  return all;
}

}  // namespace
}  // namespace penstock

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: penstock_faulty_drive MOUNTPOINT\n", stderr);
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with the test, however that ends
  std::string name = arguments[0];
  std::string mount_point = arguments[1];
  std::string foreground = "-f";
  std::string one_thread = "-s";
  char* own[] = {name.data(), foreground.data(), one_thread.data(), mount_point.data(), nullptr};
  const fuse_operations all = penstock::operations();
  return fuse_main(4, own, &all, nullptr);
}
