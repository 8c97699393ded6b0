#pragma once

#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "swap/store/store_transfer.h"

namespace penstock {

/// Starts `transfer`, if it could be made, and waits for its end. Nothing: all is well.
inline std::optional<Error> transfer_outcome(Result<std::shared_ptr<StoreTransfer>> transfer) {
  if (transfer.has_error()) {
    return std::move(transfer).error();
  }
  std::promise<std::optional<Error>> done;
  transfer.value()->start(
      [&done](std::optional<Error> error) { done.set_value(std::move(error)); });
  return done.get_future().get();
}

}  // namespace penstock
