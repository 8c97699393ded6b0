#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "swap/engine/engine_part.h"
#include "swap/engine/memory_broker.h"
#include "swap/schedule/prefetch_scheduler.h"
#include "swap/ticket.h"
#include "swap/transfer/host_transfer.h"

namespace penstock {

class Planner;

/// How contents come to who gets them: at once from memory, else by a read, or after what must
/// happen first.
class Reader : private EnginePart {
 public:
  Reader(EngineState& state, MemoryBroker& broker, PrefetchScheduler& scheduler, Planner& planner)
      : EnginePart(state), broker_(broker), scheduler_(scheduler), planner_(planner) {}

  // Without the lock.

  Ticket get(TensorId tensor, Access access);
  /// Finds memory for a content and begins to read it on demand. Where that would wait, the read is
  /// put off, so that a get() never blocks for memory.
  void fill(const FillRequest& request) noexcept;
  /// Begins what was put off and has memory now, in the order of the gets. Called before what may
  /// be read ahead is looked for.
  void fill_put_off() noexcept;
  /// Copies a content for who will change it.
  void copy(CopyRequest request) noexcept;
  HostTransfer::Place place_of(const SwapStore& store, const StoredTensor& stored,
                               std::shared_ptr<const TensorInfo> info) const;

  // With the lock.

  void note_use(TensorId tensor) noexcept PENSTOCK_NEEDS_LOCK;
  std::vector<WaitingGet> lend_to_readers(TensorRecord& record, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
  void serve_again(TensorRecord& record, std::vector<WaitingGet> waiting, Locked& locked) noexcept
      PENSTOCK_NEEDS_LOCK;
  /// Residents are renewed in place, as memory always is, even by a holder that leaves in the
  /// middle; but what a durable store has yet to write must be whole until then, and what is copied
  /// until it is.
  bool changes_in_place(const TensorRecord& record) const PENSTOCK_NEEDS_LOCK;
  /// Reads the stored content into the record's block; the operation has been counted already.
  /// Errors, and where it throws: nothing has begun.
  Result<void> start(TensorRecord& record, IoPriority priority) PENSTOCK_NEEDS_LOCK;
  /// The record, where it is still the read of `request` that it waits for.
  TensorRecord* wanted(const FillRequest& request) const PENSTOCK_NEEDS_LOCK;

 private:
  /// What a read in flight holds.
  struct Reading {
    FillRequest request;
    std::shared_ptr<Block> block;
    HeldExtent extent;
    std::uint64_t generation = 0;  // of the content
  };

  void serve(TensorRecord& record, WaitingGet get, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  void serve_or_line_up(TensorRecord& record, WaitingGet get, Locked& locked) PENSTOCK_NEEDS_LOCK;
  void read_on_demand(TensorRecord& record, WaitingGet get, Locked& locked) PENSTOCK_NEEDS_LOCK;
  void serve_current(TensorRecord& record, WaitingGet get, Locked& locked) PENSTOCK_NEEDS_LOCK;
  void lend_to_update(TensorRecord& record, WaitingGet get, Locked& locked) PENSTOCK_NEEDS_LOCK;
  void lend_copy(TensorRecord& record, WaitingGet get, Locked& locked) PENSTOCK_NEEDS_LOCK;
  void hand_out_copy(TensorRecord& record, WaitingGet get, Result<std::shared_ptr<Block>> copied,
                     Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  void count_hit(const TensorRecord& record, WaitingGet& get) noexcept PENSTOCK_NEEDS_LOCK;
  void finished(Reading ended, std::optional<Error> error) noexcept;
  /// A read has come to nothing: its memory goes, and the gets that wait for it have the error.
  void fail(TensorRecord& record, const Error& error, Locked& locked) noexcept PENSTOCK_NEEDS_LOCK;
  bool reads_again(TensorRecord& record, const Error& error) noexcept PENSTOCK_NEEDS_LOCK;
  bool reads_newer(TensorRecord& record, std::uint64_t generation,
                   std::optional<Error>& error) noexcept PENSTOCK_NEEDS_LOCK;
  void put_off(FillRequest request) noexcept;

  MemoryBroker& broker_;
  PrefetchScheduler& scheduler_ PENSTOCK_GUARDED;
  Planner& planner_;
  std::vector<FillRequest> put_off_ PENSTOCK_GUARDED;
};

}  // namespace penstock
