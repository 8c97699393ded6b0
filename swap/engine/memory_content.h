#pragma once

#include <cstdint>
#include <memory>

#include "swap/engine/block.h"
#include "swap/transfer/host_transfer.h"

namespace penstock {

/// Whether memory has a tensor's newest content.
enum class Presence : std::uint8_t {
  kAbsent,
  kReading,   ///< from a drive: memory is sought, then a read is in flight
  kCopying,   ///< from the caller's memory, into the resident's own
  kArriving,  ///< from a device, and it is newer than what was there before
  kCurrent,   ///< `block` has it
};

/// Whether a tensor's memory may go from one to the other.
bool may_follow(Presence from, Presence to) noexcept;

/// What a tensor was before, in memory alone; empty: a drive has it, or there is none.
struct OlderContent {
  std::shared_ptr<Block> block;
  std::uint64_t generation = 0;
};

/// What memory has of a tensor. Guarded by the engine's lock.
class MemoryContent {
 public:
  std::shared_ptr<Block> block;
  std::uint64_t generation = 0;  ///< of what `block` has, where that is current
  std::shared_ptr<HostTransfer> reading;
  bool reads_ahead = false;     ///< `reading` began before a get asked for it
  OlderContent replaced;        ///< by what arrives, should it not arrive
  std::uint32_t updates = 0;    ///< leases that get() gave to change the content, until they have
  bool comes_in_slots = false;  ///< when it is rewritten: its last new content did
  bool leaves = false;  ///< a resident that is to leave RAM when no lease changes it any more

  Presence presence() const noexcept { return presence_; }
  bool is_absent() const noexcept { return presence_ == Presence::kAbsent; }
  bool is_current() const noexcept { return presence_ == Presence::kCurrent; }
  /// Whether it lies in a slot of the pool.
  bool is_in_slot() const noexcept { return is_current() && block->buffer && !block->overflows(); }
  bool is_arriving() const noexcept { return presence_ == Presence::kArriving; }
  bool is_coming() const noexcept { return !is_absent() && !is_current(); }
  /// Whether a drive's content is as new as what memory has, or waits for.
  bool is_as_on_drive() const noexcept { return is_absent() || presence_ == Presence::kReading; }
  /// Counts how often a content began to come, so that a late one is recognised.
  std::uint64_t fill() const noexcept { return fill_; }

  /// A content begins to come: kReading, kCopying or kArriving. Gives its number.
  std::uint64_t begin(Presence coming) noexcept;
  /// `block` has the content of this generation.
  void become_current(std::uint64_t content_generation) noexcept;
  /// `block` has gone.
  void become_absent() noexcept;

 private:
  void become(Presence next) noexcept;

  Presence presence_ = Presence::kAbsent;
  std::uint64_t fill_ = 0;
};

}  // namespace penstock
