#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/result.h"
#include "bench/measure/bandwidth_meter.h"
#include "bench/measure/latency_histogram.h"
#include "bench/workload/file_set.h"
#include "bench/workload/request_source.h"
#include "bench/workload/workload_run.h"
#include "io/io_engine.h"

namespace penstock::bench {

/// What the requests of one direction have come to.
struct DirectionTally {
  std::uint64_t bytes = 0;
  std::uint64_t ios = 0;
  LatencyHistogram clat;
  BandwidthMeter bandwidth;
};

/// Who fills what is written and checks what was read.
class ContentGuard {
 public:
  virtual ~ContentGuard() = default;
  ContentGuard() = default;
  ContentGuard(const ContentGuard&) = delete;
  ContentGuard& operator=(const ContentGuard&) = delete;

  virtual void before_write(const Request& request, std::span<std::byte> block) = 0;
  virtual Result<void> after_read(const Request& request, std::span<const std::byte> block) = 0;
};

/// When a loop waits, and when it ends before its feed does.
struct LoopPace {
  std::optional<std::uint64_t> runtime_ns;
  std::uint64_t thinktime_ns = 0;  ///< after each request, with nothing under way
  std::uint32_t fsync_writes = 0;  ///< an fsync after so many; 0: never
};

/// Keeps an engine busy with what a feed says: as many requests under way as it has memory for.
/// Allocates nothing and asks the clock twice a round, however many requests come and go in it.
/// Driven by the thread that made the engine.
class RequestLoop {
 public:
  /// `arena` holds `depth` blocks of `slot_bytes` each. All must outlive the loop; `guard` may be
  /// null.
  RequestLoop(IoEngine& engine, const FileSet& files, std::span<std::byte> arena,
              std::uint32_t depth, ContentGuard* guard);

  /// Until the feed has nothing more, the time is over, control.stop, or an error: of a request
  /// (path, offset, errno), or what the guard says. Returns when nothing is under way.
  Result<void> run(RequestFeed& feed, const LoopPace& pace, RunControl& control);

  /// Of the latest run.
  const DirectionTally& reads() const noexcept { return reads_; }
  const DirectionTally& writes() const noexcept { return writes_; }
  std::uint64_t elapsed_ns() const noexcept { return end_ns_ - begin_ns_; }
  /// Of the latest run and what its caller did since, as fio counts a sync at the end.
  std::uint64_t ns_since_begin() const;
  /// By control.stop, with more to do.
  bool stopped() const noexcept { return stopped_; }

 private:
  struct Slot {
    IoOp op;
    Request request;
    std::uint64_t issued_ns = 0;
    RequestLoop* loop = nullptr;
  };

  void begin_run(const LoopPace& pace, RunControl& control);
  void top_up(RequestFeed& feed);
  bool is_over();
  void think();
  void begin(const Request& request);
  void wait_for_older_passes(const Request& request);
  void round();
  void drain();
  void after_request(const Request& request);
  void finish(Slot& slot);
  void fail(Error error);
  void stamp();

  IoEngine& engine_;
  const FileSet& files_;
  ContentGuard* guard_;
  std::unique_ptr<Slot[]> slots_;
  std::vector<Slot*> free_;
  std::vector<Slot*> fresh_;           // submitted, and not given to the kernel yet
  std::vector<std::uint32_t> passes_;  // the latest pass of writes, by file
  std::uint32_t in_flight_ = 0;
  std::uint32_t unsynced_writes_ = 0;
  LoopPace pace_;
  RunControl* control_ = nullptr;  // while it runs
  std::uint64_t begin_ns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t end_ns_ = 0;
  bool ended_ = false;
  bool stopped_ = false;
  Result<void> outcome_;
  DirectionTally reads_;
  DirectionTally writes_;
};

}  // namespace penstock::bench
