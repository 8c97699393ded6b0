#include "swap/lease.h"

#include "alloc/out_of_memory.h"
#include "swap/engine/lease_token.h"
#include "swap/engine/trace_log.h"

namespace penstock {

LeaseToken::~LeaseToken() {
  if (process_.elsewhere()) {
    // A forked child's copy: engine and pool behind it are the parent's. What it holds stays held.
    static_cast<void>(new std::shared_ptr<Block>(std::move(block_)));
    return;
  }
  if (trace_) {
    if_memory_allows([this] { trace_->use(TraceOp::kRelease, tensor_, access_); });
  }
  if (const std::shared_ptr<LeaseKeeper> keeper = keeper_.lock()) {
    keeper->lease_ended(*this);
  }
}

Result<void> Lease::check_held() const {
  if (token_ == nullptr) {
    return fault(Fault::kClosed, "this lease was released");
  }
  if (token_->elsewhere()) {
    return fault(Fault::kClosed, "this lease is of the process that has forked this one");
  }
  return {};
}

void Lease::end_update() const noexcept {
  if (!token_ || token_->access() == Access::kRead || token_->elsewhere()) {
    return;
  }
  if (const std::shared_ptr<LeaseKeeper> keeper = token_->keeper()) {
    keeper->update_ended(*token_);
  }
}
std::byte* Lease::data() const noexcept {
  return token_ ? token_->block()->data() : nullptr;
}
std::uint64_t Lease::bytes() const noexcept {
  return token_ ? token_->block()->bytes : 0;
}
TensorId Lease::tensor() const noexcept {
  return token_ ? token_->tensor() : TensorId{};
}

}  // namespace penstock
