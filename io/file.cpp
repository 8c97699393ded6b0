#include "io/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "alloc/sabotage.h"
#include "io/file_system.h"

namespace penstock {
namespace {

constexpr auto kOffsetMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

// Calls `transfer(done)`, which moves bytes from there on or says -errno, until `bytes` are moved.
// Returns 0 or an errno.
template <class Transfer>
int transfer_all(std::uint64_t bytes, int errno_of_no_progress, Transfer transfer) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::int64_t moved = transfer(done);
    if (moved == 0) {
      return errno_of_no_progress;
    }
    if (moved < 0 && moved != -EINTR) {
      return static_cast<int>(-moved);
    }
    done += moved > 0 ? static_cast<std::uint64_t>(moved) : 0;
  }
  return 0;
}

}  // namespace

Result<File> File::create_scratch(const std::string& directory, DirectMode mode) {
  return os_file_system().create_scratch(directory, mode);
}

Result<File> File::open(const std::string& path, Access access, DirectMode mode) {
  return os_file_system().open(path, access, mode);
}

File::File(File&& other) noexcept
    : system_(other.system_),
      fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      direct_(std::move(other.direct_)) {}

File& File::operator=(File&& other) noexcept {
  File taken(std::move(other));
  std::swap(system_, taken.system_);
  std::swap(fd_, taken.fd_);
  std::swap(path_, taken.path_);
  std::swap(direct_, taken.direct_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) {
    system_->close(fd_);
  }
}

Error File::cannot(int error, const char* verb) const {
  return system_error(error, fmt::format("cannot {} {}", verb, path_), path_);
}

Result<void> File::reserve(std::uint64_t offset, std::uint64_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  const bool beyond = bytes > kOffsetMax || offset > kOffsetMax - bytes;
  const std::lock_guard lock(reserving_);
  const int result = beyond ? -EFBIG : system_->reserve(fd_, offset, bytes);
  if (result < 0) {
    return system_error(
        -result, fmt::format("cannot reserve {} bytes at {} in {}", bytes, offset, path_), path_);
  }
  return {};
}

Result<std::uint64_t> File::size_bytes() const {
  const std::int64_t size = system_->size(fd_);
  if (size < 0) {
    return cannot(static_cast<int>(-size), "ask for the size of");
  }
  return static_cast<std::uint64_t>(size);
}

bool File::has_name() const {
  return system_->names(fd_) != 0;  // an error says nothing of the name
}

Result<void> File::truncate(std::uint64_t bytes) const {
  if (const int result = bytes > kOffsetMax ? -EFBIG : system_->truncate(fd_, bytes); result < 0) {
    return cannot(-result, "cut off");
  }
  return {};
}

Result<void> File::sync() const {
  if (sabotaged(Sabotage::kSync)) {
    return {};
  }
  if (const int result = system_->sync(fd_); result < 0) {
    return cannot(-result, "sync");
  }
  return {};
}

Result<bool> File::try_lock(Lock kind) const {
  const int result = system_->try_lock(fd_, kind);
  if (result < 0 && result != -EWOULDBLOCK) {
    return cannot(-result, "lock");
  }
  return result == 0;
}

Result<void> File::unlock() const {
  if (const int result = system_->unlock(fd_); result < 0) {
    return cannot(-result, "unlock");
  }
  return {};
}

Result<void> File::read_at(std::uint64_t offset, std::span<std::byte> target) const {
  const int error = transfer_all(target.size(), ENODATA, [&](std::uint64_t done) {
    return system_->read(fd_, target.subspan(done), offset + done);
  });
  if (error != 0) {
    return cannot(error, "read");
  }
  return {};
}

Result<void> File::write_at(std::uint64_t offset, std::span<const std::byte> source) const {
  const int error = transfer_all(source.size(), EIO, [&](std::uint64_t done) {
    return system_->write(fd_, source.subspan(done), offset + done);
  });
  if (error != 0) {
    return cannot(error, "write");
  }
  return {};
}

}  // namespace penstock
