#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "swap/block.h"
#include "swap/plan/inventory.h"
#include "swap/plan/place.h"
#include "swap/store/store_transfer.h"
#include "swap/store/swap_store.h"
#include "swap/tensor.h"
#include "swap/ticket_state.h"

namespace penstock {

/// A get() that waits for a read or a write in flight.
struct WaitingGet {
  std::shared_ptr<TicketState> ticket;
  Access access = Access::kRead;
};

/// What a tensor was before, in memory alone; empty: a drive has it, or there is none.
struct OlderContent {
  std::shared_ptr<Block> block;
  std::uint64_t generation = 0;
};

/// All that an engine knows of one tensor. Guarded by the engine's mutex.
///
/// Presence: kAbsent -> kFilling (memory sought, then a read in flight; or a copy from a device)
/// -> kCurrent -> kAbsent.
/// kCurrent means that `block` holds the newest content that there is; clean() that a drive has it
/// too.
struct TensorRecord {
  enum class Presence : std::uint8_t { kAbsent, kFilling, kCurrent };

  TensorId id{};
  NamespaceId space{};
  std::uint64_t number = 0;  ///< in its store
  TensorInfo info;
  std::uint64_t bytes = 0;
  std::optional<Place> ruled;   ///< what the user's rules say
  Place place = Place::kClass;  ///< what the plan says; kClass before there is one

  std::uint64_t generation = 0;          ///< of the newest content
  std::uint64_t stored_generation = 0;   ///< of `stored`
  std::uint64_t certain_generation = 0;  ///< newest committed, kept or stored
  HeldExtent stored;                     ///< newest content that is whole on a drive
  std::optional<Error> unwritten;        ///< why a newer one, in `block`, is not
  Presence presence = Presence::kAbsent;
  std::shared_ptr<Block> block;
  std::uint64_t memory_generation = 0;  ///< of what `block` holds, where that is current
  std::uint64_t fill = 0;               ///< counts fillings, so that a late one is recognised
  std::shared_ptr<StoreTransfer> reading;
  bool reads_ahead = false;  ///< `reading` began before a get asked for it
  bool arriving = false;     ///< kFilling, from a device, with the newest content
  OlderContent replaced;     ///< by it, should it not arrive
  std::vector<WaitingGet> waiting_for_read;
  std::vector<WaitingGet> waiting_for_write;
  std::uint32_t writes_in_flight = 0;
  bool is_to_be_put = false;  ///< should its first put fail, it was never declared
  std::uint32_t updates = 0;  ///< leases that get() gave to change the content, until they have
  bool leaves = false;        ///< a resident that is to leave RAM when nobody changes it any more

  /// So that await_write() needs no memory.
  void expect_await_write() {
    waiting_for_write.reserve(waiting_for_write.size() + waiting_for_read.size());
  }
  /// Gets that wait for a read of the older content get the new one instead.
  void await_write() noexcept {
    for (WaitingGet& waiting : std::exchange(waiting_for_read, {})) {
      waiting_for_write.push_back(std::move(waiting));
    }
  }
  /// The content in memory is whole on a drive, so that its memory may be given up.
  bool clean() const noexcept {
    return stored != nullptr && memory_generation == stored_generation;
  }
};

}  // namespace penstock
