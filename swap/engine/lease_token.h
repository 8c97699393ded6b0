#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "alloc/process_mark.h"
#include "swap/engine/block.h"
#include "swap/engine/engine_lock.h"
#include "swap/engine/lease_keeper.h"
#include "swap/tensor.h"

namespace penstock {

class TraceLog;

/// What all copies of one Lease share. Its end goes to the engine, if that still exists.
class LeaseToken {
 public:
  LeaseToken(std::shared_ptr<Block> block, TensorId tensor, Access access, bool of_content,
             std::weak_ptr<LeaseKeeper> keeper)
      : block_(std::move(block)),
        tensor_(tensor),
        access_(access),
        changes_(access == Access::kUpdate),
        of_content_(of_content),
        keeper_(std::move(keeper)) {}
  ~LeaseToken();
  LeaseToken(const LeaseToken&) = delete;
  LeaseToken& operator=(const LeaseToken&) = delete;

  const std::shared_ptr<Block>& block() const noexcept { return block_; }
  /// At its end: what its memory serves next begins without it.
  std::shared_ptr<Block> give_up_block() noexcept { return std::move(block_); }
  TensorId tensor() const noexcept { return tensor_; }
  Access access() const noexcept { return access_; }
  /// Whether its holder may be changing the content now.
  bool changes() const noexcept PENSTOCK_NEEDS_LOCK { return changes_; }
  void end_changes() noexcept PENSTOCK_NEEDS_LOCK { changes_ = false; }
  /// The generation that its last commit made; nothing before one.
  std::optional<std::uint64_t> committed() const noexcept PENSTOCK_NEEDS_LOCK { return committed_; }
  void note_commit(std::uint64_t generation) noexcept PENSTOCK_NEEDS_LOCK {
    committed_ = generation;
  }
  /// Whether get() gave it, so that a content was there to be changed.
  bool of_content() const noexcept { return of_content_; }
  bool elsewhere() const noexcept { return process_.elsewhere(); }
  std::shared_ptr<LeaseKeeper> keeper() const noexcept { return keeper_.lock(); }
  /// Records the end of the lease in `trace`.
  void record_end_in(std::shared_ptr<TraceLog> trace) { trace_ = std::move(trace); }
  /// Whether `engine` gave it: it owns all its parts.
  bool is_of(const std::weak_ptr<void>& engine) const noexcept {
    return !keeper_.owner_before(engine) && !engine.owner_before(keeper_);
  }

 private:
  std::shared_ptr<Block> block_;
  TensorId tensor_;
  Access access_;
  bool changes_ PENSTOCK_GUARDED;
  bool of_content_;
  std::optional<std::uint64_t> committed_ PENSTOCK_GUARDED;
  std::weak_ptr<LeaseKeeper> keeper_;
  std::shared_ptr<TraceLog> trace_;
  ProcessMark process_;
};

}  // namespace penstock
