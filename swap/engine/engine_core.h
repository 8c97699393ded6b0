#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "swap/engine/ahead_reader.h"
#include "swap/engine/committer.h"
#include "swap/engine/content_streams.h"
#include "swap/engine/declarations.h"
#include "swap/engine/device_stagings.h"
#include "swap/engine/engine_context.h"
#include "swap/engine/engine_memory.h"
#include "swap/engine/memory_broker.h"
#include "swap/engine/namespace_set.h"
#include "swap/engine/planner.h"
#include "swap/engine/reader.h"
#include "swap/engine/target_reader.h"
#include "swap/engine/tensor_table.h"
#include "swap/engine/trace_log.h"
#include "swap/engine/write_failures.h"
#include "swap/engine/write_queue.h"
#include "swap/engine/write_rescue.h"
#include "swap/engine/writer.h"

namespace penstock {

/// The parts that the others work with.
struct EngineGround : EngineState {
  PrefetchScheduler scheduler;
  DeviceStagings devices{context};
  WriteQueue writes{*this, scheduler};
  MemoryBroker broker{*this, writes, scheduler, devices};
  Planner planner{*this, broker, devices};
  Declarations declarations{*this};
};

/// The parts that bring contents to callers.
struct EngineReaders {
  explicit EngineReaders(EngineGround& on)
      : reader(on, on.broker, on.scheduler, on.planner),
        ahead(on, reader, on.scheduler),
        targets(on, reader, on.planner, on.devices) {}

  Reader reader;
  AheadReader ahead;
  TargetReader targets;
};

/// The parts that take contents from callers.
struct EngineWriters {
  EngineWriters(EngineGround& on, Reader& reader)
      : rescue(on, on.writes, failures),
        writer(on, reader, on.declarations, rescue, on.devices),
        committer(on, on.broker, reader, on.writes, on.declarations, rescue, on.devices) {}

  WriteFailures failures;
  WriteRescue rescue;
  Writer writer;
  Committer committer;
};

/// The parts behind one SwapEngine, put together. Leases and transfers in flight hold all of them
/// alive. One mutex guards all records (Locked): operations move megabytes each, so it is never the
/// bottleneck.
class EngineCore final : private EngineGround, private DeferredWork::Worker {
 public:
  static Result<std::shared_ptr<EngineCore>> make(SwapEngineOptions options);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  Declarations& tensors() noexcept { return declarations; }
  NamespaceSet& namespaces() noexcept { return namespaces_; }
  Reader& reader() noexcept { return readers_.reader; }
  AheadReader& ahead() noexcept { return readers_.ahead; }
  TargetReader& targets() noexcept { return readers_.targets; }
  Committer& committer() noexcept { return writers_.committer; }
  ContentStreams& streams() noexcept { return streams_; }
  Planner& plans() noexcept { return planner; }

  SwapStats stats();
  std::optional<std::string> overflow_advice();
  Result<void> close();
  /// The engine's clock, and what callers have waited by it; valid while the engine is open.
  TraceLog::Watch watch() const;

 private:
  explicit EngineCore(SwapEngineOptions options);
  Result<void> open_queue();
  Result<void> open_memory();
  SwapStats stats_now() PENSTOCK_NEEDS_LOCK;
  std::optional<std::string> new_overflow_advice();
  void give_advice();
  Result<void> end();

  void send(WritingPtr writing) noexcept override;
  void fill(const FillRequest& request) noexcept override;
  void copy(CopyRequest request) noexcept override;
  void run_ahead() noexcept override;

  EngineReaders readers_{*this};
  EngineWriters writers_{*this, readers_.reader};
  NamespaceSet namespaces_{*this, writes, declarations, writers_.failures, planner};
  ContentStreams streams_{*this,  broker,          readers_.reader,
                          writes, writers_.writer, writers_.committer};
  bool advice_is_given_ PENSTOCK_GUARDED = false;        // the caller has asked for it
  std::optional<Result<void>> closed_ PENSTOCK_GUARDED;  // as the first close() has ended
};

}  // namespace penstock
