#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/limiting_source.h"
#include "alloc/page_source.h"
#include "alloc/recycling_source.h"
#include "swap/engine/block.h"
#include "swap/engine/engine_context.h"
#include "swap/engine/held_buffer_ledger.h"
#include "swap/engine/lease_keeper.h"
#include "swap/engine/lease_token.h"
#include "swap/engine/locked.h"
#include "swap/engine/overflow_account.h"
#include "swap/engine/tensor_record.h"
#include "swap/plan/budgets.h"
#include "swap/schedule/read_ahead.h"
#include "swap/schedule/residency.h"

namespace penstock {

/// The memory that an engine has, and what tensors use it for: slots, residents, what was read
/// ahead, pageable memory. Which tensor gets which, MemoryBroker decides. Members are guarded by
/// the engine's lock where nothing else is said.
class EngineMemory {
 public:
  /// Thread-safe, all of them.
  struct Sources {
    std::shared_ptr<MemorySource> resident;
    std::shared_ptr<RecyclingSource> overflow;
    std::shared_ptr<TransferMemory> transfers;
    std::shared_ptr<PageSource> pinned_pages;
    std::shared_ptr<LimitingSource> pinned;
  };

  explicit EngineMemory(EngineContext& context) : context_(context) {}

  /// Opens the pool; the ends of leases are said to `keeper`. Once.
  void open(Sources sources, std::weak_ptr<LeaseKeeper> keeper);
  /// The pool goes to the caller, who lets go of it without the lock: that unmaps.
  std::unique_ptr<BufferPool> close() noexcept { return std::move(pool_); }

  Budgets& budgets() noexcept PENSTOCK_NEEDS_LOCK { return budgets_; }
  /// Thread-safe. Null: the engine is closed.
  BufferPool* pool() const noexcept { return pool_.get(); }
  Residency& residency() noexcept PENSTOCK_NEEDS_LOCK { return residency_; }
  ReadAhead& ahead() noexcept PENSTOCK_NEEDS_LOCK { return ahead_; }
  OverflowAccount& account() noexcept PENSTOCK_NEEDS_LOCK { return account_; }
  /// Thread-safe.
  HeldBufferLedger& ledger() const noexcept { return *held_; }
  /// A plan has divided it. Readable without the lock.
  bool planned() const noexcept { return planned_; }
  bool set_planned(bool planned) noexcept { return planned_.exchange(planned); }
  const Sources& sources() const noexcept { return sources_; }

  // Without the lock: they map memory or touch it.

  /// For a content that may stay.
  Result<std::shared_ptr<Block>> resident_block(std::uint64_t bytes) const;
  /// The same with the bytes of `source`, which stay as they are meanwhile.
  Result<std::shared_ptr<Block>> resident_copy(std::span<const std::byte> source) const;
  /// Fresh pages can cost more than reading into them. Provided by the thread that wants the
  /// content, they cost it no more than it waits anyway, and the drive works meanwhile; left to
  /// direct I/O, they would hold up the one thread that serves all of it.
  void provide_pages(const Block& block);
  std::uint64_t ns_since(std::chrono::steady_clock::time_point begin) const;

  // With the lock.

  enum class Lent : std::uint8_t { kToRead, kToUpdate, kToFill };
  /// Where it throws std::bad_alloc, nothing has changed.
  Lease lend(TensorRecord& record, Lent lent) PENSTOCK_NEEDS_LOCK {
    return lend(record.memory.block, record, lent);
  }
  Lease lend(const std::shared_ptr<Block>& block, TensorRecord& record, Lent lent)
      PENSTOCK_NEEDS_LOCK;
  /// What the lease holds is not changed any more. `record` is its tensor's; null: it is gone.
  static void end_changes(LeaseToken& token, TensorRecord* record) noexcept PENSTOCK_NEEDS_LOCK;
  void drop(TensorRecord& record, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  /// Counts in pool and accounts what the record's memory is used for now. Call after every change
  /// of `leases`, `writes_in_flight`, what is read ahead or residency.
  void update_use(TensorRecord& record) noexcept PENSTOCK_NEEDS_LOCK;
  /// Callers have it, or wait for it.
  void hold(Block& block, const TensorRecord& record) const noexcept PENSTOCK_NEEDS_LOCK;
  void note_peak() PENSTOCK_NEEDS_LOCK;
  std::uint64_t kept_room_bytes() const PENSTOCK_NEEDS_LOCK;
  /// Lets pageable memory that is freed stay for the next request. Call after what changes how much
  /// of it may.
  void retain_pages() PENSTOCK_NEEDS_LOCK;

 private:
  EngineContext& context_;
  Budgets budgets_ PENSTOCK_GUARDED;
  std::atomic<bool> planned_{false};
  Sources sources_;
  std::unique_ptr<BufferPool> pool_;
  Residency residency_ PENSTOCK_GUARDED{0};
  ReadAhead ahead_ PENSTOCK_GUARDED;
  OverflowAccount account_ PENSTOCK_GUARDED;
  std::weak_ptr<LeaseKeeper> keeper_;
  const std::shared_ptr<HeldBufferLedger> held_ = std::make_shared<HeldBufferLedger>();
};

}  // namespace penstock
