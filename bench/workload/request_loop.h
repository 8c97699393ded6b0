#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/result.h"
#include "bench/measure/course.h"
#include "bench/measure/job_result.h"
#include "bench/workload/block_feed.h"
#include "bench/workload/workload_run.h"
#include "io/file.h"
#include "io/io_engine.h"

namespace penstock::bench {

/// When a loop waits, and when it ends before its feed does.
struct LoopPace {
  std::optional<std::uint64_t> runtime_ns = {};
  std::uint64_t rate = 0;  ///< bytes a second of each direction at most; 0: no limit
};

/// What a run did. The directions have no run times.
struct LoopResult {
  DirectionResult reads;
  DirectionResult writes;
  Course course;
  std::uint64_t elapsed_ns = 0;
  bool stopped = false;  ///< by control.stop, with more to do
};

/// Keeps an engine busy with what a feed says: as many requests under way as it has memory for.
/// Allocates nothing and asks the clock two or three times a round, however many requests come and
/// go in it. Driven by the thread that made the engine.
class RequestLoop {
 public:
  /// `arena` holds `depth` blocks of equal size. All must outlive the loop.
  RequestLoop(IoEngine& engine, const File& file, std::span<std::byte> arena, std::uint32_t depth);

  /// Until the feed has nothing more, the time is over, control.stop, or an error of a request
  /// (path, offset, errno). Returns when nothing is under way.
  Result<void> run(BlockFeed& feed, const LoopPace& pace, RunControl& control);

  /// Of the latest run.
  const LoopResult& result() const noexcept { return result_; }
  /// Of the latest run and what its caller did since, as fio counts a sync at the end.
  std::uint64_t ns_since_begin() const;

 private:
  struct Slot {
    IoOp op;
    std::uint64_t issued_ns = 0;
    RequestLoop* loop = nullptr;
  };

  void begin_run(const LoopPace& pace, RunControl& control);
  void top_up(BlockFeed& feed);
  bool is_over();
  std::uint64_t early_ns(const Request& request) const;
  void wait_for_rate();
  void begin(const Request& request);
  void round();
  void finish(Slot& slot);
  void add_sample(std::uint64_t at_ns);
  void stamp();

  IoEngine& engine_;
  const File& file_;
  const bool is_asynchronous_;  // not a call of one of the engine's threads
  std::unique_ptr<Slot[]> slots_;
  std::vector<Slot*> free_;
  std::vector<Slot*> fresh_;     // submitted, and not given to the kernel yet
  std::optional<Request> next_;  // waits for the rate, also behind the end of a run
  std::uint32_t in_flight_ = 0;
  LoopPace pace_;
  RunControl* control_ = nullptr;  // while it runs
  std::uint64_t begin_ns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t begun_read_bytes_ = 0;
  std::uint64_t begun_write_bytes_ = 0;
  bool ended_ = false;
  Result<void> outcome_;
  LoopResult result_;
};

}  // namespace penstock::bench
