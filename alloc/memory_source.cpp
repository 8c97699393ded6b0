#include "alloc/memory_source.h"

#include <fmt/format.h>

#include <cerrno>

#include "alloc/bytes.h"

namespace penstock {

Result<std::uint64_t> MemorySource::whole_blocks(std::uint64_t bytes) {
  // Every 64-bit Linux gives a process less; far enough from 2^64 that no rounding wraps around.
  constexpr std::uint64_t kAddressSpaceBytes = std::uint64_t{1} << 57;
  if (bytes == 0) {
    return fault(Fault::kInvalidArgument, "cannot allocate 0 bytes");
  }
  if (bytes > kAddressSpaceBytes) {
    return system_error(ENOMEM, fmt::format("cannot allocate {}", format_bytes(bytes)));
  }
  return align_up(bytes, kBlockBytes);
}

Result<Memory> MemorySource::join(std::vector<Memory> /*pieces*/, std::uint64_t /*bytes*/) {
  return fault(Fault::kUnsupported, fmt::format("{} cannot be joined", name()));
}

}  // namespace penstock
