#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "swap/engine/engine_lock.h"
#include "swap/engine/memory_content.h"
#include "swap/engine/ticket_state.h"
#include "swap/plan/inventory.h"
#include "swap/plan/place.h"
#include "swap/store/swap_store.h"
#include "swap/tensor.h"

namespace penstock {

/// A get() that waits for a read or a write in flight.
struct WaitingGet {
  std::shared_ptr<TicketState> ticket;
  Access access = Access::kRead;
  bool is_counted = false;

  /// Adds it to one counter of hits, late ones and misses, and only once: a get that waits is
  /// served anew when what it waits for is over.
  void count_as(std::uint64_t& counter) noexcept {
    counter += is_counted ? 0U : 1U;
    is_counted = true;
  }
};

/// What drives have of a tensor.
struct DriveContent {
  HeldExtent stored;               ///< newest content that is whole on a drive
  std::uint64_t generation = 0;    ///< of `stored`
  std::optional<Error> unwritten;  ///< why a newer one, in memory, is not there
  std::uint32_t writes_in_flight = 0;
  bool awaits_first_put = false;  ///< should it fail, the tensor was never declared
};

/// Gets that could not be served at once.
struct WaitingGets {
  std::vector<WaitingGet> for_read;
  std::vector<WaitingGet> for_write;

  /// So that await_write() needs no memory.
  void expect_await_write() { for_write.reserve(for_write.size() + for_read.size()); }
  /// Gets that wait for a read of the older content get the new one instead.
  void await_write() noexcept {
    for (WaitingGet& waiting : std::exchange(for_read, {})) {
      for_write.push_back(std::move(waiting));
    }
  }
  void expect_await_read() { for_read.reserve(for_read.size() + for_write.size()); }
  void await_read() noexcept {
    for (WaitingGet& waiting : std::exchange(for_write, {})) {
      for_read.push_back(std::move(waiting));
    }
  }
};

/// All that an engine knows of one tensor. Guarded by the engine's lock.
struct TensorRecord {
  TensorId id{};
  NamespaceId space{};
  std::uint64_t number = 0;  ///< in its store
  /// Never null; shared with transfers in flight.
  std::shared_ptr<const TensorInfo> info PENSTOCK_GUARDED;
  std::uint64_t content_bytes PENSTOCK_GUARDED = 0;  ///< info->bytes(), which each scan asks for
  std::optional<Place> ruled PENSTOCK_GUARDED;       ///< what the user's rules say
  Place place PENSTOCK_GUARDED = Place::kClass;  ///< what the plan says; kClass before there is one

  std::uint64_t generation PENSTOCK_GUARDED = 0;          ///< of the newest content
  std::uint64_t certain_generation PENSTOCK_GUARDED = 0;  ///< newest committed, kept or stored
  DriveContent drive PENSTOCK_GUARDED;
  MemoryContent memory PENSTOCK_GUARDED;
  WaitingGets gets PENSTOCK_GUARDED;

  void describe(std::shared_ptr<const TensorInfo> as) noexcept PENSTOCK_NEEDS_LOCK {
    content_bytes = as->bytes();
    info = std::move(as);
  }
  std::uint64_t bytes() const noexcept PENSTOCK_NEEDS_LOCK { return content_bytes; }
  /// The content in memory is whole on a drive, so that its memory may be given up.
  bool clean() const noexcept PENSTOCK_NEEDS_LOCK {
    return drive.stored != nullptr && memory.generation == drive.generation;
  }
};

}  // namespace penstock
