#pragma once

#include <cstdint>
#include <memory>

#include "alloc/process_mark.h"
#include "swap/block.h"
#include "swap/tensor.h"

namespace penstock {

class SwapEngineCore;
class TraceLog;

/// What all copies of one Lease share. Its end tells the engine, if that still exists.
class LeaseToken {
 public:
  LeaseToken(std::shared_ptr<Block> block, TensorId tensor, Access access, std::uint64_t generation,
             std::weak_ptr<SwapEngineCore> core)
      : block_(std::move(block)),
        tensor_(tensor),
        access_(access),
        generation_(generation),
        core_(std::move(core)) {}
  ~LeaseToken();
  LeaseToken(const LeaseToken&) = delete;
  LeaseToken& operator=(const LeaseToken&) = delete;

  const std::shared_ptr<Block>& block() const noexcept { return block_; }
  TensorId tensor() const noexcept { return tensor_; }
  Access access() const noexcept { return access_; }
  /// The tensor's generation when this lease was given.
  std::uint64_t generation() const noexcept { return generation_; }
  /// Its end is to be recorded there.
  void tell(std::shared_ptr<TraceLog> trace) { trace_ = std::move(trace); }
  /// Whether `core` gave it.
  bool is_of(const std::weak_ptr<SwapEngineCore>& core) const noexcept {
    return !core_.owner_before(core) && !core.owner_before(core_);
  }

 private:
  std::shared_ptr<Block> block_;
  TensorId tensor_;
  Access access_;
  std::uint64_t generation_;
  std::weak_ptr<SwapEngineCore> core_;
  std::shared_ptr<TraceLog> trace_;
  ProcessMark process_;
};

}  // namespace penstock
