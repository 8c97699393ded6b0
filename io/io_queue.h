#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "io/engine_probe.h"
#include "io/event_loop.h"
#include "io/io_engine.h"

namespace penstock {

/// The thread-safe interface of an engine: submit from any thread, callbacks on the loop's thread.
class IoQueue {
 public:
  /// Makes the engine on the loop's own thread (io_uring's single issuer).
  static Result<std::unique_ptr<IoQueue>> start(EngineKind kind, const IoEngineOptions& options);
  /// An engine that `make` brings, on that thread, in place of one of the machine's kinds.
  using MakeEngine = std::function<Result<std::unique_ptr<IoEngine>>(const IoEngineOptions&)>;
  static Result<std::unique_ptr<IoQueue>> start(const MakeEngine& make,
                                                const IoEngineOptions& options);
  /// A queue without a thread: the caller that waits drives it by step(), always on one thread.
  /// Caller and engine alone then decide the order of events; for simulations.
  static std::unique_ptr<IoQueue> start_for_caller(std::unique_ptr<IoEngine> engine);
  ~IoQueue();
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  /// `op` as IoEngine::submit wants it. After stop() it completes with ECANCELED on the caller's
  /// thread.
  void submit(IoOp& op);
  void submit(std::span<IoOp* const> ops);
  /// Makes an operation urgent, whatever its state. It must be alive during this call only.
  void promote(IoOp& op);
  /// Ends an operation with ECANCELED unless it ends before: soon where nothing of it is with the
  /// kernel, else when that has answered, and its callback is called as ever. From any thread, also
  /// while stop() waits; the operation must be alive during this call only.
  void cancel(IoOp& op);

  /// `function` is called on the loop's thread soon after each notify(), once for several. Set it
  /// before the first; it must not throw.
  void on_notify(std::function<void()> function);
  /// From any thread, with any lock held. After stop() nothing happens.
  void notify() noexcept;

  /// As IoEngine's; wait for the loop, so hold no lock that a callback takes. After stop() the
  /// first is an error and the second has nothing to do.
  Result<void> register_memory(std::span<std::byte> memory);
  void unregister_memory(std::span<std::byte> memory);

  /// As EventLoop::run_on.
  Result<void> run_on(std::span<const std::uint32_t> cpus);

  /// Lets everything submitted complete, then stops the loop. Idempotent. Not from a callback.
  void stop();

  /// Counts an operation before its callback is called.
  IoStats stats() const;
  std::string_view engine_name() const noexcept { return engine_name_; }
  const std::vector<EngineCandidate>& refusals() const noexcept { return refusals_; }
  /// Also true within step().
  bool on_loop_thread() const noexcept { return loop_->on_loop_thread(); }

  bool caller_drives() const noexcept { return loop_->caller_drives(); }
  /// What time it is where the drive is (IoEngine::now). Only where caller_drives().
  IoOp::TimePoint now() const noexcept;
  /// Runs what was posted, waits for a result if some are due, calls back. False: there was nothing
  /// to do. Only where caller_drives(), and not from a callback.
  bool step();

 private:
  class Pump;
  IoQueue();
  static Result<std::unique_ptr<IoQueue>> start_thread(
      const std::function<Result<std::unique_ptr<IoEngine>>(std::vector<EngineCandidate>&)>& make);

  // The loop outlives the pump's use of it: stop() joins before either goes.
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Pump> pump_;
  std::string_view engine_name_;
  std::vector<EngineCandidate> refusals_;
};

}  // namespace penstock
