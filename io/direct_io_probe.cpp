#include "io/direct_io_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "alloc/bytes.h"

namespace penstock {
namespace {

// What to assume of a file that takes O_DIRECT on a kernel that does not report its alignment
// (before 6.1, and file systems that do not answer): drives that want more need a newer one.
constexpr auto kUnknownAlignment = static_cast<std::uint32_t>(kBlockBytes);

struct Alignment {
  bool known = false;
  std::uint32_t memory = 0;  // 0: no direct I/O on this file
  std::uint32_t offset = 0;
};

Alignment ask_alignment([[maybe_unused]] int fd) {
  Alignment alignment;
#ifdef STATX_DIOALIGN  // the C library brings the kernel's own struct along with the name
  struct ::statx info{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    alignment = {true, info.stx_dio_mem_align, info.stx_dio_offset_align};
  }
#endif
  return alignment;
}

}  // namespace

// O_DIRECT is switched on after opening, by fcntl: one way for files opened, created and unlinked,
// and a refusal leaves a file that is open all the same.
DirectIo probe_direct_io(int fd, const std::string& path, DirectMode mode) {
  DirectIo direct;
  if (mode == DirectMode::kBuffered) {
    direct.reason = "buffered I/O was asked for";
    return direct;
  }
  Alignment alignment = ask_alignment(fd);
  if (alignment.known && (alignment.memory == 0 || alignment.offset == 0)) {
    direct.reason = fmt::format("the file system has no direct I/O for files in {}", path);
    return direct;
  }
  // All that is moved begins and ends at our blocks: a drive of larger ones would refuse most.
  if (const std::uint32_t needed = std::max(alignment.memory, alignment.offset);
      needed > kBlockBytes) {
    direct.reason = fmt::format("direct I/O needs whole blocks of {} bytes in {}, and ours have {}",
                                needed, path, kBlockBytes);
    return direct;
  }
  if (!alignment.known) {
    alignment = {false, kUnknownAlignment, kUnknownAlignment};
  }
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) {
    direct.reason = system_error(errno, fmt::format("O_DIRECT refused for {}", path)).message;
    return direct;
  }
  return {true, alignment.memory, alignment.offset, {}};
}

}  // namespace penstock
