#include "io/registered_buffers.h"

#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <limits>

#include "alloc/bytes.h"

namespace penstock {
namespace {

constexpr unsigned kEntries = 512;              // two an arena, and few pools have over a hundred
constexpr std::uint64_t kEntryBytesMax = kGiB;  // the kernel's own limit

// The part of `memory` from `at` on that becomes an entry. PageSource advises huge pages up to the
// last whole one. Allocates nothing: an I/O thread has no way to say that memory is short.
std::span<std::byte> part_at(std::span<std::byte> memory, std::size_t at) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t huge_end = align_down(begin + memory.size(), kHugePageBytes);
  const std::size_t huge_bytes = huge_end > begin ? huge_end - begin : 0;
  const std::size_t rest = (at < huge_bytes ? huge_bytes : memory.size()) - at;
  return memory.subspan(at, std::min<std::size_t>(kEntryBytesMax, rest));
}

std::size_t count_parts(std::span<std::byte> memory) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < memory.size(); at += part_at(memory, at).size()) {
    ++count;
  }
  return count;
}

}  // namespace

RegisteredBuffers::RegisteredBuffers(io_uring& ring) : ring_(ring) {
  if (const int result = ::io_uring_register_buffers_sparse(&ring_, kEntries); result < 0) {
    table_ = system_error(-result, "cannot register buffers with io_uring (Linux 5.19 is needed)");
    return;
  }
  regions_.reserve(kEntries);  // so that what is pinned is always noted
  for (unsigned entry = kEntries; entry-- != 0;) {
    free_entries_.push_back(entry);
  }
}

Result<void> RegisteredBuffers::add(std::span<std::byte> memory) {
  PENSTOCK_TRY(table_);
  if (count_parts(memory) > free_entries_.size()) {
    return fault(Fault::kExhausted,
                 fmt::format("cannot register {} with io_uring: all {} entries are in use",
                             format_bytes(memory.size()), kEntries));
  }
  for (std::size_t at = 0; at < memory.size();) {
    const std::span<std::byte> part = part_at(memory, at);
    at += part.size();
    const unsigned entry = free_entries_.back();
    if (const int error = set_entry(entry, part.data(), part.size()); error != 0) {
      remove(memory);  // the parts before this one
      return system_error(error, fmt::format("cannot register {} with io_uring (`ulimit -l` limits "
                                             "it, and slower I/O works without)",
                                             format_bytes(memory.size())));
    }
    free_entries_.pop_back();
    const Region region{part.data(), part.data() + part.size(), entry};
    regions_.insert(std::ranges::upper_bound(regions_, region.begin, {}, &Region::begin), region);
  }
  return {};
}

void RegisteredBuffers::remove(std::span<std::byte> memory) {
  const std::byte* const end = memory.data() + memory.size();
  std::erase_if(regions_, [&](const Region& region) {
    const bool within = region.begin >= memory.data() && region.end <= end;
    // An entry that cannot be emptied stays pinned until the ring goes, and is not used again.
    if (within && set_entry(region.entry, nullptr, 0) == 0) {
      free_entries_.push_back(region.entry);
    }
    return within;
  });
}

const RegisteredBuffers::Region* RegisteredBuffers::region_of(
    const std::byte* data) const noexcept {
  const auto after = std::ranges::upper_bound(regions_, data, {}, &Region::begin);
  if (after == regions_.begin()) {
    return nullptr;
  }
  const Region& region = *std::prev(after);
  return data < region.end ? &region : nullptr;
}

std::optional<int> RegisteredBuffers::find(const std::byte* data,
                                           std::uint64_t bytes) const noexcept {
  const Region* const region = region_of(data);
  if (region == nullptr || bytes > static_cast<std::uint64_t>(region->end - data)) {
    return std::nullopt;
  }
  return static_cast<int>(region->entry);
}

std::uint64_t RegisteredBuffers::bytes_to_end(const std::byte* data) const noexcept {
  const Region* const region = region_of(data);
  return region == nullptr ? std::numeric_limits<std::uint64_t>::max()
                           : static_cast<std::uint64_t>(region->end - data);
}

int RegisteredBuffers::set_entry(unsigned entry, std::byte* data, std::uint64_t bytes) {
  const iovec memory{data, bytes};
  const __u64 no_tag = 0;
  const int result = ::io_uring_register_buffers_update_tag(&ring_, entry, &memory, &no_tag, 1);
  return result < 0 ? -result : 0;
}

}  // namespace penstock
