#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/memory_source.h"
#include "alloc/mutex.h"
#include "alloc/size_class.h"

namespace penstock {

/// Keeps freed pieces for later requests, up to a byte limit. Fresh pages cost a page fault and a
/// memset by the kernel (0.1 s per GB on a quiet machine, 2 s per GB on a virtual one whose host
/// takes free pages back), recycled ones nothing.
///
/// Where the upstream's pieces may be divided (MemorySource::divisible), a smaller request gets a
/// part of a larger piece, and parts that lie side by side become one again; else a piece is reused
/// when at most 1/8 of it is wasted. Where they may be joined, a request that no piece can hold
/// gets the pages of several. What does not fit under the limits goes back, longest idle first.
class RecyclingSource final : public MemorySource {
 public:
  static std::shared_ptr<RecyclingSource> make(std::shared_ptr<MemorySource> upstream);
  explicit RecyclingSource(std::shared_ptr<MemorySource> upstream);

  /// When the upstream refuses, everything retained is given back and it is asked once more.
  Result<Memory> allocate(std::uint64_t bytes) override;
  std::string_view name() const noexcept override { return "recycled"; }

  /// What lowers them gives back at once.
  struct Limits {
    std::uint64_t retained_bytes = 0;  ///< that may stay here unused; 0: nothing is retained
    /// Lent and retained together: what is freed may be kept, as far as what is lent leaves room.
    std::uint64_t total_bytes = ~std::uint64_t{0};
  };
  void set_limits(Limits limits);
  std::uint64_t retained_bytes() const;
  /// Whole pieces, as the upstream gave them.
  std::uint64_t lent_bytes() const;
  /// Whether allocate(bytes) would need no fresh pages now.
  bool retains(std::uint64_t bytes) const;

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override;

 private:
  struct Piece {
    Memory memory;  // the upstream's handle
    std::uint64_t freed_at = 0;
  };
  using Pieces = std::map<std::byte*, Piece>;

  // The retained piece that suits best, in whole or in part; the end where none does.
  Pieces::const_iterator best_for(std::uint64_t bytes) const PENSTOCK_REQUIRES(mutex_);
  Memory take_retained(std::uint64_t bytes);
  // Of what none could hold: the pages of several pieces, and fresh ones as far as they do not
  // reach. Empty: there are none to join.
  Memory join_retained(std::uint64_t bytes);
  // Whole huge pages, `bytes` at most. The largest pieces first: each seam costs the kernel a
  // mapping.
  std::vector<Memory> take_huge_pages(std::uint64_t bytes) PENSTOCK_REQUIRES(mutex_);
  bool joins(std::uint64_t bytes) const noexcept { return joinable_ && bytes >= kHugePageBytes; }
  // Whole huge pages where they waste at most 1/8; else the last pages are fresh.
  static std::uint64_t joined_bytes(std::uint64_t bytes) {
    const std::uint64_t whole = align_up(bytes, kHugePageBytes);
    return serves(whole, bytes) ? whole : bytes;
  }
  // Bytes that take_huge_pages() finds.
  std::uint64_t whole_huge_pages() const PENSTOCK_REQUIRES(mutex_);
  static std::uint64_t whole_huge_pages(const Pieces::value_type& piece);
  void retain(Memory memory) PENSTOCK_REQUIRES(mutex_);
  void merge_with_next(Pieces::iterator piece) PENSTOCK_REQUIRES(mutex_);
  Memory take_front(Pieces::const_iterator piece, std::uint64_t bytes) PENSTOCK_REQUIRES(mutex_);
  // What may be retained beside what is lent and `more` bytes.
  std::uint64_t room(std::uint64_t more = 0) const PENSTOCK_REQUIRES(mutex_);
  void make_room(std::uint64_t bytes);
  void give_back_all();
  // Takes out what has been idle longest until at most `limit_bytes` are retained. The caller drops
  // it after unlocking: giving gigabytes back to the kernel takes long.
  std::vector<Memory> trim(std::uint64_t limit_bytes) PENSTOCK_REQUIRES(mutex_);

  std::shared_ptr<MemorySource> upstream_;
  const bool divisible_;
  const bool joinable_;
  mutable Mutex mutex_;
  Pieces retained_ PENSTOCK_GUARDED_BY(mutex_);  // by address
  std::uint64_t clock_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::uint64_t retained_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;  // sum over retained_
  std::uint64_t lent_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  Limits limits_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock
