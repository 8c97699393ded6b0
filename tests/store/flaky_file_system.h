#pragma once

#include <cerrno>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "io/file_system.h"

namespace penstock {

/// The machine's file system, or another one, except that calls which change something are written
/// down, and fail where a test says so. What the calls before a failure did stays done, whether it
/// was synced or not: syncs are written down, not made.
class FlakyFileSystem final : public FileSystem {
 public:
  explicit FlakyFileSystem(FileSystem& inner = os_file_system()) : inner_(inner) {}

  /// "write /dir/manifest", "sync /dir/manifest", "rename /dir/manifest"… Returns an errno for the
  /// call that is about to be made, 0 to let it be.
  using Fault = std::function<int(const std::string& call)>;

  void set_fault(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
  }
  /// Called before each call, without a lock; may use whatever uses the file system.
  void set_watch(std::function<void(const std::string& call)> watch) { watch_ = std::move(watch); }
  /// From the n-th call on (0: the next one) everything fails: the machine has stopped.
  void stop_after(std::size_t calls) {
    set_fault([calls](const std::string&) mutable { return calls == 0 ? EIO : (--calls, 0); });
  }
  std::vector<std::string> take_calls() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

  Result<File> create_scratch(const std::string& directory, DirectMode mode) override {
    PENSTOCK_TRY(check("create", directory));
    return hand_out(inner_.create_scratch(directory, mode));
  }
  Result<File> open(const std::string& path, File::Access access, DirectMode mode) override {
    if (access != File::Access::kRead) {
      PENSTOCK_TRY(check("open", path));
    }
    return hand_out(inner_.open(path, access, mode));
  }
  Result<void> make_directories(const std::string& path) override {
    PENSTOCK_TRY(check("mkdir", path));
    return inner_.make_directories(path);
  }
  Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override {
    Result<std::unique_ptr<Directory>> opened = inner_.open_directory(path);
    if (opened.has_error()) {
      return opened;
    }
    return std::unique_ptr<Directory>(
        std::make_unique<FlakyDirectory>(*this, std::move(opened).value()));
  }
  std::optional<std::uint64_t> free_bytes(const std::string& path) override {
    return inner_.free_bytes(path);
  }

 protected:
  void close(int fd) noexcept override {
    const std::lock_guard lock(mutex_);
    files_.erase(fd);
  }
  int reserve(int fd, std::uint64_t offset, std::uint64_t bytes) override {
    return run("reserve", fd, [&](const File& file) { return file.reserve(offset, bytes); });
  }
  int truncate(int fd, std::uint64_t bytes) override {
    return run("truncate", fd, [&](const File& file) { return file.truncate(bytes); });
  }
  std::int64_t size(int fd) override {
    return static_cast<std::int64_t>(*file_of(fd).size_bytes());
  }
  std::int64_t names(int fd) override { return file_of(fd).has_name() ? 1 : 0; }
  int sync(int fd) override {
    return run("sync", fd, [](const File&) { return Result<void>(); });
  }
  int try_lock(int fd, File::Lock kind) override {
    return *file_of(fd).try_lock(kind) ? 0 : -EWOULDBLOCK;
  }
  int unlock(int fd) override {
    const Result<void> done = file_of(fd).unlock();
    return done ? 0 : -done.error().system_errno();
  }
  std::int64_t read(int fd, std::span<std::byte> target, std::uint64_t offset) override {
    const Result<void> done = file_of(fd).read_at(offset, target);
    return done ? static_cast<std::int64_t>(target.size()) : -done.error().system_errno();
  }
  std::int64_t write(int fd, std::span<const std::byte> source, std::uint64_t offset) override {
    const int result =
        run("write", fd, [&](const File& file) { return file.write_at(offset, source); });
    return result == 0 ? static_cast<std::int64_t>(source.size()) : result;
  }

 private:
  class FlakyDirectory final : public Directory {
   public:
    FlakyDirectory(FlakyFileSystem& system, std::unique_ptr<Directory> inner)
        : Directory(inner->path()), system_(system), inner_(std::move(inner)) {}

    Result<File> open(const std::string& name, File::Access access, DirectMode mode) override {
      if (access != File::Access::kRead) {
        PENSTOCK_TRY(system_.check("open", path_of(name)));
      }
      return system_.hand_out(inner_->open(name, access, mode));
    }
    Result<std::vector<std::string>> list() override { return inner_->list(); }
    Result<void> rename(const std::string& from, const std::string& to) override {
      PENSTOCK_TRY(system_.check("rename", path_of(to)));
      return inner_->rename(from, to);
    }
    Result<void> rename_new(const std::string& from, const std::string& to) override {
      PENSTOCK_TRY(system_.check("rename", path_of(to)));
      return inner_->rename_new(from, to);
    }
    Result<void> remove(const std::string& name) override {
      PENSTOCK_TRY(system_.check("remove", path_of(name)));
      return inner_->remove(name);
    }
    Result<void> sync() override { return system_.check("syncdir", path()); }

   private:
    FlakyFileSystem& system_;
    std::unique_ptr<Directory> inner_;
  };

  Result<void> check(const std::string& verb, const std::string& path) {
    const std::string call = verb + " " + path;
    if (watch_) {
      watch_(call);
    }
    const std::lock_guard lock(mutex_);
    const int error = fault_ ? fault_(call) : 0;
    calls_.push_back(call + (error == 0 ? "" : " failed"));
    if (error != 0) {
      return system_error(error, "cannot " + call, path);
    }
    return {};
  }

  template <class Call>
  int run(const std::string& verb, int fd, Call call) {
    const File& file = file_of(fd);
    Result<void> done = check(verb, file.path());
    if (done.has_value()) {
      done = call(file);
    }
    return done ? 0 : -done.error().system_errno();
  }

  Result<File> hand_out(Result<File> opened) {
    if (opened.has_error()) {
      return opened;
    }
    const int fd = opened->fd();
    File outer = make_file(*this, fd, opened->path(), opened->direct());
    const std::lock_guard lock(mutex_);
    files_.emplace(fd, std::move(opened).value());
    return outer;
  }
  const File& file_of(int fd) {
    const std::lock_guard lock(mutex_);
    return files_.at(fd);
  }

  FileSystem& inner_;
  std::function<void(const std::string&)> watch_;  // set while nothing is under way
  std::mutex mutex_;
  Fault fault_;
  std::vector<std::string> calls_;
  std::map<int, File> files_;
};

}  // namespace penstock
