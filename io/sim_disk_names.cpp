// The names on a simulated drive: directories, files, and what a power cut leaves of changes.

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "io/sim_disk_node.h"

namespace penstock {

std::string normal_path(const std::string& path) {
  std::string result;
  for (const char c : path) {
    if (c != '/' || result.empty() || result.back() != '/') {
      result.push_back(c);
    }
  }
  while (result.size() > 1 && result.back() == '/') {
    result.pop_back();
  }
  return result;
}

std::string parent_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::shared_ptr<SimDisk::Node> SimDisk::find(const std::string& path) const {
  const auto found = names_.find(path);
  return found == names_.end() ? nullptr : found->second;
}

// 0 if `path` may be made: its directory is there.
int SimDisk::parent_errno(const std::string& path) const {
  const std::string parent = parent_path(path);
  if (parent.empty()) {
    return 0;
  }
  const std::shared_ptr<Node> node = find(parent);
  return node == nullptr ? ENOENT : node->directory ? 0 : ENOTDIR;
}

void SimDisk::apply(const NameChange& change, Names& names) {
  for (const auto& [path, node] : change.entries) {
    if (node == nullptr) {
      names.erase(path);
    } else {
      names[path] = node;
    }
  }
}

void SimDisk::change_name(const std::string& path, std::shared_ptr<Node> node) {
  unsynced_.push_back({parent_path(path), {{path, std::move(node)}}});
  apply(unsynced_.back(), names_);
}

File SimDisk::hand_out(std::shared_ptr<Node> node, const std::string& path, DirectMode mode) {
  DirectIo direct;
  if (mode == DirectMode::kAuto) {
    direct = {true,
              static_cast<std::uint32_t>(kSectorBytes),
              static_cast<std::uint32_t>(kSectorBytes),
              {}};
  }
  const int fd = next_fd_++;
  handles_[fd] = std::make_unique<Handle>(Handle{std::move(node), direct.supported});
  return make_file(*this, fd, path, std::move(direct));
}

Result<File> SimDisk::create_scratch(const std::string& directory, DirectMode mode) {
  PENSTOCK_TRY(make_directories(directory));
  const std::lock_guard lock(mutex_);
  return hand_out(std::make_shared<Node>(false, &used_bytes_), directory, mode);
}

Result<File> SimDisk::open(const std::string& path, File::Access access, DirectMode mode) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal_path(path);
  std::shared_ptr<Node> node = find(name);
  int error = power_fails() ? EIO : 0;
  if (error == 0 && node == nullptr) {
    const bool makes = access == File::Access::kCreate || access == File::Access::kExclusive;
    error = makes ? parent_errno(name) : ENOENT;
  } else if (error == 0 && access == File::Access::kExclusive) {
    error = EEXIST;
  }
  if (error == 0 && node == nullptr) {
    node = std::make_shared<Node>(false, &used_bytes_);
    change_name(name, node);
  }
  if (error == 0 && node->directory) {
    error = EISDIR;
  }
  if (error != 0) {
    return system_error(error, fmt::format("cannot open {}", path), path);
  }
  return hand_out(std::move(node), path, mode);
}

Result<void> SimDisk::make_directories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal_path(path);
  int error = power_fails() ? EIO : 0;
  for (std::size_t slash = name.find('/', 1); error == 0;) {
    const std::string directory = name.substr(0, slash);
    const std::shared_ptr<Node> node = find(directory);
    if (node == nullptr) {
      change_name(directory, std::make_shared<Node>(true, &used_bytes_));
    } else if (!node->directory) {
      error = ENOTDIR;
    }
    if (slash == std::string::npos) {
      break;
    }
    slash = name.find('/', slash + 1);
  }
  if (error != 0) {
    return system_error(error, fmt::format("cannot create the directory {}", path), path);
  }
  return {};
}

/// Names only: on this drive are no links, and no other users.
class SimDisk::SimDirectory final : public Directory {
 public:
  SimDirectory(SimDisk& disk, std::string path) : Directory(std::move(path)), disk_(disk) {}

  Result<File> open(const std::string& name, File::Access access, DirectMode mode) override {
    return disk_.open(path_of(name), access, mode);
  }
  Result<std::vector<std::string>> list() override { return disk_.list(path()); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return disk_.rename(path_of(from), path_of(to));
  }
  Result<void> rename_new(const std::string& from, const std::string& to) override {
    return disk_.rename(path_of(from), path_of(to), true);
  }
  Result<void> remove(const std::string& name) override { return disk_.remove(path_of(name)); }
  Result<void> sync() override { return disk_.sync_directory(path()); }

 private:
  SimDisk& disk_;
};

Result<std::unique_ptr<Directory>> SimDisk::open_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal_path(path);
  const std::shared_ptr<Node> node = find(name);
  const bool root = name.empty() || name == "/";
  const int missing = node == nullptr ? ENOENT : node->directory ? 0 : ENOTDIR;
  const int error = power_fails() ? EIO : root ? 0 : missing;
  if (error != 0) {
    return system_error(error, fmt::format("cannot open the directory {}", path), path);
  }
  return std::unique_ptr<Directory>(std::make_unique<SimDirectory>(*this, path));
}

Result<std::vector<std::string>> SimDisk::list(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal_path(directory);
  const std::shared_ptr<Node> node = find(name);
  const int error = power_fails() ? EIO : node == nullptr ? ENOENT : node->directory ? 0 : ENOTDIR;
  if (error != 0) {
    return system_error(error, fmt::format("cannot list {}", directory), directory);
  }
  std::vector<std::string> inside;
  for (const auto& [path, entry] : names_) {
    if (parent_path(path) == name) {
      inside.push_back(path.substr(name.size() + 1));
    }
  }
  return inside;
}

Result<void> SimDisk::rename(const std::string& from, const std::string& to, bool is_new) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Node> node = find(normal_path(from));
  const int error = power_fails()                                ? EIO
                    : node == nullptr                            ? ENOENT
                    : is_new && find(normal_path(to)) != nullptr ? EEXIST
                                                                 : parent_errno(normal_path(to));
  if (error != 0) {
    return system_error(error, fmt::format("cannot rename {} to {}", from, to), to);
  }
  unsynced_.push_back(
      {parent_path(normal_path(to)), {{normal_path(to), node}, {normal_path(from), nullptr}}});
  apply(unsynced_.back(), names_);
  return {};
}

Result<void> SimDisk::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const int error = power_fails() ? EIO : find(normal_path(path)) == nullptr ? ENOENT : 0;
  if (error != 0) {
    return system_error(error, fmt::format("cannot remove {}", path), path);
  }
  change_name(normal_path(path), nullptr);
  return {};
}

Result<void> SimDisk::sync_directory(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  if (power_fails() || rolls(SimFault::kSyncError)) {
    return system_error(EIO, fmt::format("cannot sync the directory {}", directory), directory);
  }
  const std::string name = normal_path(directory);
  std::vector<NameChange> others;
  for (NameChange& change : unsynced_) {
    if (change.directory == name) {
      apply(change, durable_names_);
    } else {
      others.push_back(std::move(change));
    }
  }
  unsynced_ = std::move(others);
  return {};
}

std::optional<std::uint64_t> SimDisk::free_bytes(const std::string& /*path*/) {
  const std::lock_guard lock(mutex_);
  return capacity_bytes_ - std::min(capacity_bytes_, used_bytes_);
}

}  // namespace penstock
