#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "alloc/out_of_memory.h"
#include "alloc/result.h"
#include "swap/engine/block.h"
#include "swap/engine/tensor_record.h"
#include "swap/engine/ticket_state.h"
#include "swap/engine/writing.h"
#include "swap/lease.h"
#include "swap/store/swap_store.h"
#include "swap/tensor.h"

namespace penstock {

/// A read that a record waits for: memory for it is to be found, and the read to be begun.
struct FillRequest {
  TensorId tensor{};
  std::uint64_t fill = 0;    ///< the record's, so that a late one is recognised
  bool is_ahead = false;     ///< no get() has asked for it yet; the tensor is to stay in RAM
  bool was_put_off = false;  ///< for want of memory, and counted
};

/// A content to be copied for a get() that will change it.
struct CopyRequest {
  TensorId tensor{};
  std::uint64_t generation = 0;   ///< of the content
  std::shared_ptr<Block> source;  ///< counted in Block::copies
  WaitingGet get;
};

/// What decisions made under the engine's lock leave to be done when it has been released.
/// Collected by one thread. Only expect_fill() and copy() may throw std::bad_alloc, and then have
/// taken nothing.
class DeferredWork {
 public:
  /// Does the parts of it that are the engine's. Called without the lock.
  class Worker {
   public:
    virtual void send(WritingPtr writing) noexcept = 0;
    virtual void fill(const FillRequest& request) noexcept = 0;
    virtual void copy(CopyRequest request) noexcept = 0;
    virtual void run_ahead() noexcept = 0;

   protected:
    ~Worker() = default;
  };

  DeferredWork() = default;
  DeferredWork(const DeferredWork&) = delete;
  DeferredWork& operator=(const DeferredWork&) = delete;

  /// Nothing happens where `ticket` is null.
  void fulfil(std::shared_ptr<TicketState> ticket, std::optional<Error> error,
              Lease lease = {}) noexcept;
  /// Memory and space are given back, which may unmap.
  void drop(std::shared_ptr<Block> block) noexcept { put_by(blocks_, std::move(block)); }
  void drop(HeldExtent extent) noexcept { put_by(extents_, std::move(extent)); }
  void send(WritingPtr writing) noexcept;
  void expect_fill() { fills_.reserve(fills_.size() + 1); }
  /// After an expect_fill() of its own.
  void fill(const FillRequest& request) noexcept { fills_.push_back(request); }
  void copy(CopyRequest request) { copies_.push_back(std::move(request)); }
  /// Something may have made room for reading ahead, or extended what is known of the future.
  void run_ahead() noexcept { runs_ahead_ = true; }

  /// Once: writes first, since memory comes back by them; then memory and space go, since callers
  /// that a ticket wakes need them, as fills do; then tickets end, which runs callbacks.
  void act(Worker& worker) noexcept;

 private:
  static constexpr std::size_t kInPlace = 16;  // for more of them memory is needed
  template <class Held>
  using List = boost::container::small_vector<std::shared_ptr<Held>, kInPlace>;

  // Without memory for the list it goes now: only the mapping of a pool that was shaped anew
  // meanwhile could mind.
  template <class Held>
  static void put_by(List<Held>& list, std::shared_ptr<Held> held) noexcept {
    if (held) {
      if_memory_allows([&] { list.push_back(std::move(held)); });
    }
  }
  void end_tickets() noexcept;

  std::shared_ptr<TicketState> first_ended_;  // linked by TicketState::next_ended
  TicketState* last_ended_ = nullptr;
  WritingPtr first_writing_;  // linked by Writing::next
  Writing* last_writing_ = nullptr;
  boost::container::small_vector<FillRequest, 4> fills_;
  boost::container::small_vector<CopyRequest, 1> copies_;
  List<Block> blocks_;
  List<const StoredTensor> extents_;
  bool runs_ahead_ = false;
};

}  // namespace penstock
