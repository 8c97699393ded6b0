#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "alloc/result.h"
#include "swap/tensor.h"

namespace penstock {

class LeaseToken;

/// A shared hold on a tensor's memory. Copies hold the same memory; when the last is gone the
/// engine may reuse it. May be released on any thread, and may outlive the engine: the memory stays
/// readable.
class Lease {
 public:
  Lease() = default;
  explicit Lease(std::shared_ptr<LeaseToken> token) : token_(std::move(token)) {}

  std::byte* data() const noexcept;
  std::uint64_t bytes() const noexcept;
  std::span<std::byte> span() const noexcept { return {data(), static_cast<std::size_t>(bytes())}; }
  TensorId tensor() const noexcept;
  explicit operator bool() const noexcept { return token_ != nullptr; }
  /// Whether its memory may be looked at. Errors: Fault::kClosed: it was released, or its process
  /// has forked this one, which has not got the memory.
  Result<void> check_held() const;
  /// Ends a lease for an update while views of it still read the memory, which must not be changed
  /// any more. Implied by commit() and by the last copy's end.
  void end_update() const noexcept;
  void release() noexcept { token_.reset(); }
  const std::shared_ptr<LeaseToken>& token() const noexcept { return token_; }

 private:
  std::shared_ptr<LeaseToken> token_;
};

}  // namespace penstock
