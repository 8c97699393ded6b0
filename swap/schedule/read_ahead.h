#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "swap/schedule/tensor_id.h"

namespace penstock {

/// Which tensors were read ahead of their use, or are just being read, and have not been used yet.
/// Asked on every use of a tensor, so that each question costs the same however many they are. Pure
/// bookkeeping; not thread-safe. Invariant: bytes() is the sum over all of them.
class ReadAhead {
 public:
  /// The read of `tensor` begins; it was not among them.
  void begin(TensorId tensor, std::uint64_t bytes);
  /// It was used, rewritten or given up. Nothing happens where it was not among them.
  void end(TensorId tensor);

  bool holds(TensorId tensor) const { return places_.contains(tensor); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// In the order in which their reads began, by a number that grows.
  const std::map<std::uint64_t, TensorId>& in_order() const noexcept { return in_order_; }

 private:
  struct Place {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
  };
  std::unordered_map<TensorId, Place> places_;
  std::map<std::uint64_t, TensorId> in_order_;
  std::uint64_t begun_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock
