#pragma once

#include <list>
#include <map>
#include <mutex>

#include "alloc/memory_source.h"

namespace penstock {

/// Keeps freed pieces for the next request of nearly their size, up to a byte limit. Fresh pages
/// cost a page fault and a memset by the kernel (about 0.1 s per GB here), recycled ones nothing.
/// A piece is reused only when it is at most 1/8 larger than what is asked for. Where a freed piece
/// does not fit under the limit, those that have been idle longest go first.
class RecyclingSource final : public MemorySource {
 public:
  static std::shared_ptr<RecyclingSource> make(std::shared_ptr<MemorySource> upstream);
  explicit RecyclingSource(std::shared_ptr<MemorySource> upstream);

  /// When the upstream refuses, everything retained is given back and it is asked once more.
  Result<Memory> allocate(std::uint64_t bytes) override;
  std::string_view name() const noexcept override { return "recycled"; }

  /// Bytes that may stay here unused; lowering it gives back at once. 0 (the default) retains
  /// nothing.
  void set_retained_limit_bytes(std::uint64_t bytes);
  std::uint64_t retained_bytes() const;

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override;

 private:
  using Pieces = std::list<Memory>;  // the upstream's handles

  // The retained piece that suits best, or an empty handle.
  Memory take_retained(std::uint64_t bytes);
  // Moves the longest idle pieces to the result until at most `limit_bytes` are retained. The
  // caller drops them after unlocking: giving gigabytes back to the kernel takes long.
  Pieces trim_locked(std::uint64_t limit_bytes);

  std::shared_ptr<MemorySource> upstream_;
  mutable std::mutex mutex_;
  Pieces retained_;                                          // longest idle first
  std::multimap<std::uint64_t, Pieces::iterator> by_bytes_;  // index of retained_
  std::uint64_t retained_bytes_ = 0;                         // sum over retained_
  std::uint64_t retained_limit_bytes_ = 0;
};

}  // namespace penstock
