#pragma once

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "swap/transfer/host_transfer.h"

namespace penstock {

/// Makes a transfer by `make`, which gets what to call at its end, starts it if it could be made,
/// and waits. Nothing: all is well.
template <class Make>
std::optional<Error> transfer_outcome(Make make) {
  std::promise<std::optional<Error>> done;
  const Result<std::shared_ptr<HostTransfer>> transfer = make([&done](Result<std::uint64_t> moved) {
    done.set_value(moved.has_error() ? std::optional(std::move(moved).error()) : std::nullopt);
  });
  if (transfer.has_error()) {
    return transfer.error();
  }
  HostTransfer::start(*transfer);
  return done.get_future().get();
}

/// A tensor of so many bytes of no type.
inline std::shared_ptr<const TensorInfo> bytes_info(const std::string& name, std::uint64_t bytes) {
  return std::make_shared<const TensorInfo>(TensorInfo{name, DType::kU8, {bytes}, Role::kParam});
}

}  // namespace penstock
