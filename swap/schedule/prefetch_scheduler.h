#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "swap/schedule/access_trace.h"
#include "swap/schedule/tensor_id.h"

namespace penstock {

/// What the scheduler asks of its environment: the engine answers from its records and its pool, a
/// test from a table and a simulated drive.
class PrefetchEnvironment {
 public:
  enum class Answer : std::uint8_t {
    kNothingToDo,  ///< in memory, on its way, or gone: look at the next
    kBegun,        ///< memory was found and its read has begun
    kNoRoom,       ///< no memory for this one now; others may still find some
    kStop,         ///< no memory for anything
  };
  virtual ~PrefetchEnvironment() = default;
  /// What comes before the use in question.
  struct Before {
    bool large_waits = false;  ///< no pageable room was found: this one may take a slot only
    /// That new contents, made or read back, will take beside what is in slots now.
    std::uint64_t slot_bytes = 0;
  };
  /// Begins to read `tensor` if it is not in memory and there is room.
  virtual Answer begin_ahead(TensorId tensor, const Before& before) = 0;
  /// What the tensor's next new content will take of slots: as its last one, nothing where that was
  /// made in place, in RAM or in the caller's memory.
  virtual std::uint64_t rewrite_slot_bytes(TensorId tensor) = 0;
  /// What the first use behind that content will take: it is read back where it is in no slot.
  virtual std::uint64_t reread_slot_bytes(TensorId tensor) = 0;
};

struct PrefetchLimits {
  std::size_t tensors_max = 4096;  ///< how far to look, in uses
  std::size_t refusals_max = 64;   ///< give up after so many without room
};

/// Decides what to read next: in the order of use, as far as memory reaches, small tensors passing
/// a large one that has to wait. No clock, no I/O, no threads; it runs when something has changed
/// (a use, a completed read or write, memory given back). A use that contradicts the prediction
/// halves how far it looks, and one that was predicted makes up for four: of a random order little
/// is read ahead, while neighbours that change places, or a new phase, cost nothing.
class PrefetchScheduler {
 public:
  explicit PrefetchScheduler(PrefetchLimits limits = {}) : limits_(limits) {}

  /// A use of `tensor`; returns whether it was predicted.
  bool record(TensorId tensor) { return record_event(to_number(tensor) * 2); }
  /// `tensor` has a new content. Predicted like a use: what will be rewritten before its next use
  /// is not worth reading.
  void record_rewrite(TensorId tensor) { record_event(to_number(tensor) * 2 + 1); }
  /// Tensors that a caller announces come before what the trace predicts.
  void announce(TensorId tensor);

  /// Begins as many reads as there is room for; returns how many.
  std::size_t run(PrefetchEnvironment& environment);

  /// Which of these comes last, as far as limits.tensors_max uses can be seen; of those that are
  /// not in sight the last one named. At least one tensor, and each once.
  TensorId farthest(std::span<const TensorId> tensors) const;

 private:
  bool record_event(AccessTrace::Key event);
  /// How many uses of the prediction to look at.
  std::size_t trusted_uses() const noexcept;
  void begin_scan();
  void mark_rewritten(TensorId tensor);
  bool is_rewritten(TensorId tensor) const;
  bool is_first_use_of_rewritten(TensorId tensor);

  PrefetchLimits limits_;
  AccessTrace trace_;  // of numbers: twice the tensor's for a use, one more for a rewrite
  std::deque<TensorId> announced_;
  std::size_t contradictions_ = 0;  // those that no predicted use has made up for yet
  // By tensor: the last scan that met its rewrite, one more where it met a use behind that.
  std::vector<std::uint32_t> rewritten_in_scan_;
  std::uint32_t scan_ = 0;  // a multiple of two
};

}  // namespace penstock
