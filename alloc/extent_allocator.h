#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace penstock {

/// A byte range of some address space: a file or an arena.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t end() const noexcept { return offset + bytes; }
  bool operator==(const Extent&) const = default;
};

/// Hands out byte ranges of [0, capacity) and takes them back, merging neighbours. Pure
/// bookkeeping: it knows neither memory nor files. Best fit, lowest offset first among equals, so
/// that sizes that repeat find the hole their like has left. Not thread-safe; its owner holds the
/// lock. Invariant: the free ranges are disjoint, never adjacent, and free + used == capacity.
class ExtentAllocator {
 public:
  /// `granule_bytes` (a power of two) is the unit of every range's offset and size; a capacity that
  /// is no multiple of it is rounded down.
  explicit ExtentAllocator(std::uint64_t capacity_bytes, std::uint64_t granule_bytes);

  /// At least `bytes`, rounded up to the granule (0 takes one); nothing if no single free range is
  /// large enough.
  std::optional<Extent> allocate(std::uint64_t bytes);
  /// CHECKs that `extent` was allocated and is freed once. Needs no memory: what it takes was set
  /// aside when the extent was allocated.
  void release(Extent extent) noexcept;
  /// Adds room at the end, a multiple of the granule; for files that grow.
  void extend(std::uint64_t bytes);

  std::uint64_t capacity_bytes() const noexcept { return capacity_bytes_; }
  std::uint64_t used_bytes() const noexcept { return used_bytes_; }
  std::uint64_t largest_free_bytes() const noexcept;
  /// Bytes free at the very end: what a growing file need not add.
  std::uint64_t free_tail_bytes() const noexcept;

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;            // offset -> bytes
  using Sizes = std::set<std::pair<std::uint64_t, std::uint64_t>>;  // (bytes, offset)

  // What one free range is kept in.
  struct Nodes {
    Ranges::node_type by_offset;
    Sizes::node_type by_bytes;
  };
  struct Used {
    std::uint64_t bytes = 0;
    Nodes nodes;  // for its release
  };

  static Nodes make_nodes();
  // Adds `extent` to the free ranges, merged with the ones it touches.
  void insert_free(Extent extent, Nodes nodes) noexcept;
  Nodes take_free(Ranges::iterator at) noexcept;

  std::uint64_t capacity_bytes_;
  std::uint64_t granule_bytes_;
  std::uint64_t used_bytes_ = 0;
  Ranges free_by_offset_;
  Sizes free_by_bytes_;
  std::map<std::uint64_t, Used> used_by_offset_;
};

}  // namespace penstock
