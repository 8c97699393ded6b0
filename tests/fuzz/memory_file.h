#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "alloc/check.h"

namespace penstock {

/// A regular file without a disk, for parsers that take a path; gone with this object.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::uint8_t> content)
      : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    PENSTOCK_CHECK(fd_ >= 0, "memfd_create: errno {}", errno);
    const ssize_t written = ::write(fd_, content.data(), content.size());
    PENSTOCK_CHECK(written == static_cast<ssize_t>(content.size()), "{} of {} bytes written",
                   written, content.size());
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace penstock
