#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "alloc/result.h"

struct io_uring;

namespace penstock {

/// The table of a ring's registered buffers: memory whose pages the kernel has pinned and mapped
/// once instead of at every request. The ring must outlive it or be gone with it.
class RegisteredBuffers {
 public:
  /// Makes the table, empty.
  explicit RegisteredBuffers(io_uring& ring);

  /// False where the kernel has no such tables (before Linux 5.19).
  bool usable() const noexcept { return table_.has_value(); }
  /// Errors: ENOMEM (`ulimit -l`), a full table, not usable().
  Result<void> add(std::span<std::byte> memory);
  /// Takes back what add() was given; nothing if it was not.
  void remove(std::span<std::byte> memory);

  /// The entry that [data, data + bytes) lies in as a whole.
  std::optional<int> find(const std::byte* data, std::uint64_t bytes) const noexcept;
  /// From `data` to the end of its entry; the largest number outside of all.
  std::uint64_t bytes_to_end(const std::byte* data) const noexcept;

 private:
  // A part of some memory: at most as large as the kernel takes for one entry, and whole huge pages
  // or small ones. Of an entry with both the kernel makes a list of 4 KiB pages and goes through it
  // at each request.
  struct Region {
    std::byte* begin;
    std::byte* end;
    unsigned entry;
  };

  // The region that holds `data`, or null.
  const Region* region_of(const std::byte* data) const noexcept;
  // 0 or an errno.
  int set_entry(unsigned entry, std::byte* data, std::uint64_t bytes);

  io_uring& ring_;
  Result<void> table_;           // why there is none
  std::vector<Region> regions_;  // ascending by address, disjoint
  std::vector<unsigned> free_entries_;
};

}  // namespace penstock
