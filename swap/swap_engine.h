#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "swap/content_reader.h"
#include "swap/content_writer.h"
#include "swap/lease.h"
#include "swap/plan/placement.h"
#include "swap/stats.h"
#include "swap/swap_engine_options.h"
#include "swap/tensor.h"
#include "swap/tensor_directory.h"
#include "swap/ticket.h"
#include "swap/transfer/device_tensor.h"

namespace penstock {

/// Keeps tensors on drives and in RAM and brings each where it is needed just before it is needed.
///
/// A tensor belongs to a namespace (one store; two namespaces never see each other) and has one
/// current content. Whatever fails, the last content that was put completely is still readable. All
/// members may be called from any thread; those that can block say so. In a child made by fork()
/// every call is an error (Fault::kClosed) and destruction harmless. A call that finds no memory
/// for its own bookkeeping throws std::bad_alloc and has begun nothing; what has begun ends with an
/// error (Fault::kExhausted) instead.
///
/// `penstock.mode` says what stores are. Scratch: unlinked files, nothing outlives the engine.
/// Durable: the first path is the store's directory (DurableStore), for one process at a time; what
/// it holds is there when it is opened again, and flush() makes the newest contents survive a
/// crash. Between two flushes a crash leaves of each tensor, by itself, one of the contents since
/// the first, whole.
///
/// Memory: pinned slots within max_pinned_bytes, residents within ram_bytes; leases that the caller
/// holds beyond that are pageable and limited by real memory only.
class SwapEngine final : public TensorDirectory {
 public:
  /// Starts the I/O thread. Errors: no engine usable; budgets that contradict each other; a trace
  /// that was asked for and cannot be saved.
  static Result<std::unique_ptr<SwapEngine>> open(SwapEngineOptions options);
  ~SwapEngine();

  /// Errors: Fault::kClosed: close() has begun, or this is a child made by fork().
  Result<void> usable() const;

  /// Memory of the tensor's size for a new content, to be filled and committed. May wait for a
  /// slot. Of a resident it is the content's own: what is written there is seen without a commit.
  Result<Lease> allocate(TensorId tensor);
  /// `lease` (from allocate() or get() for an update; else Fault::kInvalidArgument) holds the
  /// tensor's next content. The engine keeps it as a resident or writes it back behind reads; it is
  /// readable at once, by others from the lease's own memory, which is to read only from here on.
  /// The ticket is done when the content is in its place (in a durable store: written, residents
  /// too; the next flush() makes it safe from a crash). An error of a write whose ticket was not
  /// waited for is returned by the next check() or flush(), or as a durable namespace is closed.
  Ticket commit(const Lease& lease);
  /// Writes the next content from the caller's memory, which must stay as it is until the ticket is
  /// done. Errors: Fault::kWrongSize…
  Ticket put(TensorId tensor, std::span<const std::byte> source);

  /// Begins to fetch; Ticket::lease() has it. Never waits: where memory has to come back first, the
  /// read begins when it does. Where another content is put before the ticket is done, the lease
  /// may have that one. kUpdate: the caller will change it and commit() or drop it. Until the
  /// commit no other caller sees the change: leases to read keep their content, and a new get() to
  /// read gives the last committed content, from its drive. Errors (Fault::kInvalidArgument, since
  /// a wait might be for the same caller): a second update while one is out, and any get() while a
  /// resident without a copy on a drive is updated, in place.
  Ticket get(TensorId tensor, Access access = Access::kRead);
  /// Reads into the caller's memory (any alignment), which must stay until the ticket is done.
  Ticket get_into(TensorId tensor, std::span<std::byte> target);
  /// Begins to bring the content into a device's memory; does not wait. From the drive it goes
  /// through a few pinned chunks, from a pinned slot by one copy, after whose event the slot is
  /// free again. When the ticket is done the bytes are there, for every stream. Errors: a device
  /// that the engine was not opened for; as check_device_tensor()'s; as get()'s; the device's.
  /// After one the memory holds anything.
  Ticket get_to_device(TensorId tensor, const DeviceTensor& target);
  /// Makes what lies in a device's memory the tensor's next content, as put(): `source` stays as it
  /// is until the ticket is done. Once the bytes have come, a write that fails leaves them in
  /// memory, as commit()'s does.
  Ticket put_from_device(TensorId tensor, const DeviceTensor& source);

  /// The streams of the copies of get_to_device() and put_from_device(). A caller that makes such a
  /// stream wait for its own work need not name a stream in DeviceTensor (DLPack's
  /// `__dlpack__(stream=…)`). Errors: as theirs.
  Result<StreamId> stream_to_device(const Device& device) const;
  Result<StreamId> stream_from_device(const Device& device) const;

  /// Reads contents in parts, in this order, in little memory: for checkpoints. Errors: a tensor is
  /// not known or has no content; its drive is missing; no memory; called in a ticket's callback,
  /// which must not use a reader or a writer either: those wait for drives.
  Result<ContentReader> read(const std::vector<TensorId>& tensors);
  /// Writes contents in parts, in little memory. Errors: no memory; called in a ticket's callback.
  Result<ContentWriter> write();

  /// Says what will be needed next, in this order. A hint: never blocks, never fails.
  void prefetch(std::span<const TensorId> tensors);

  /// Blocks until every content that was committed or put so far is in its place. Durable stores
  /// publish it: from then on it survives a crash. Errors: as check(); a content of a durable store
  /// that is not safe, and why, with each flush() until it is put again; called in a ticket's
  /// callback; the engine is closed.
  Result<void> flush();
  /// Errors: the first failed write that no ticket and no call has reported. Never blocks.
  Result<void> check();
  /// Plans again for the tensors that are declared now. Implied by the first get(). Errors: budgets
  /// that contradict each other; called in a ticket's callback.
  Result<void> plan();
  Placement placement() const;

  SwapStats stats() const;
  /// A few sentences for a user: the max_pinned_bytes that would have kept everything held at once
  /// since the first plan in pinned memory, the cost of the smaller value, and the limits on a
  /// larger one. Nothing where the value was enough. Plans some twenty times where the peaks are
  /// new (milliseconds for a thousand tensors). A caller that asks reports the advice itself;
  /// without a call, close() reports it through options.warn.
  std::optional<std::string> overflow_advice() const;
  /// Waits for I/O in flight, then stops. Leases stay readable. Idempotent: a call beside another
  /// waits for it and ends as it does. Implied by destruction, which in a ticket's callback does it
  /// in the background. Errors: a failed write that was not reported before; called in a ticket's
  /// callback.
  Result<void> close();

 private:
  SwapEngine(std::shared_ptr<EngineCore> core, std::shared_ptr<TraceLog> trace);
  void close_elsewhere() noexcept;
};

}  // namespace penstock
