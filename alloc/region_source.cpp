#include "alloc/region_source.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

Result<std::shared_ptr<RegionSource>> RegionSource::make(std::uint64_t region_bytes) {
  std::uint64_t bytes = align_up(region_bytes, kHugePageBytes) + kHugePageBytes;
  void* mapped = ::mmap(nullptr, bytes, PROT_NONE, kReserved, -1, 0);
  while (mapped == MAP_FAILED && bytes / 2 >= kRegionBytesMin) {
    bytes = align_up(bytes / 2, kHugePageBytes);
    mapped = ::mmap(nullptr, bytes, PROT_NONE, kReserved, -1, 0);
  }
  if (mapped == MAP_FAILED) {
    return system_error(errno, fmt::format("no room for {} of addresses", format_bytes(bytes)));
  }
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::uint64_t skipped = align_up(reinterpret_cast<std::uintptr_t>(begin), kHugePageBytes) -
                                reinterpret_cast<std::uintptr_t>(begin);
  if (skipped > 0) {
    ::munmap(begin, skipped);
  }
  return std::make_shared<RegionSource>(begin + skipped, bytes - skipped);
}

RegionSource::~RegionSource() {
  ::munmap(region_, region_bytes_);
}

Result<Memory> RegionSource::allocate(std::uint64_t bytes) {
  Result<std::uint64_t> whole = whole_blocks(bytes);
  if (whole.has_error()) {
    return std::move(whole).error();
  }
  const std::uint64_t alignment = *whole >= kHugePageBytes ? kHugePageBytes : kBlockBytes;
  std::uint64_t used = used_bytes_.load();
  std::uint64_t begin = 0;
  do {
    begin = align_up(used, alignment);
    if (*whole > region_bytes_ - begin) {
      return fault(Fault::kExhausted,
                   fmt::format("a region of {} has no room for {} more",
                               format_bytes(region_bytes_), format_bytes(bytes)));
    }
  } while (!used_bytes_.compare_exchange_weak(used, begin + *whole));
  if (::mprotect(region_ + begin, *whole, PROT_READ | PROT_WRITE) != 0) {
    return system_error(errno, fmt::format("no memory for {}", format_bytes(bytes)));
  }
  static_cast<void>(::madvise(region_ + begin, *whole, MADV_HUGEPAGE));  // as the machine likes
  return Memory(shared_from_this(), region_ + begin, *whole);
}

void RegionSource::release(std::byte* data, std::uint64_t bytes) noexcept {
  void* const reserved = ::mmap(data, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0);
  PENSTOCK_CHECK(reserved == data, "{} bytes of a region cannot be given back: errno {}", bytes,
                 errno);
}

}  // namespace penstock
