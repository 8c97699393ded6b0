#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "swap/engine/block.h"
#include "swap/engine/tensor_record.h"
#include "swap/engine/ticket_state.h"
#include "swap/engine/write_barrier.h"
#include "swap/store/swap_store.h"
#include "swap/tensor.h"
#include "swap/transfer/device_tensor.h"

namespace penstock {

/// One content on its way to a drive; of a device's, to memory first where there is `block`.
struct Writing {
  TensorId id{};
  std::uint64_t number = 0;  ///< the tensor's, in its store
  std::uint64_t generation = 0;
  std::shared_ptr<Block> block;  ///< null where the caller owns the source
  std::uint64_t bytes = 0;
  std::span<const std::byte> source;   ///< empty: it lies on `device`
  std::optional<DeviceTensor> device;  ///< the caller's source
  OlderContent before;                 ///< which no drive has
  std::shared_ptr<SwapStore> store;
  std::shared_ptr<const TensorInfo> info;
  std::shared_ptr<StoredTensor> stored;
  std::vector<std::uint32_t> refused;  ///< drives that have failed to write it
  std::shared_ptr<TicketState> ticket;
  WriteBarrier::Half half;        ///< none: it has not begun
  std::uint64_t fill = 0;         ///< of the record, while it comes from a device to `block`
  std::shared_ptr<Writing> next;  ///< links those that DeferredWork has yet to begin
};

using WritingPtr = std::shared_ptr<Writing>;

}  // namespace penstock
