#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bench/measure/course.h"
#include "bench/measure/cpu_clock.h"
#include "bench/measure/latency_histogram.h"

namespace penstock::bench {

/// One direction of a job. Completion latency is the time from submission to completion of one
/// request of the job (a tensor, for `workload=swap`).
struct DirectionResult {
  std::uint64_t io_bytes = 0;
  std::uint64_t total_ios = 0;
  std::uint64_t short_ios = 0;
  std::uint64_t runtime_ns = 0;
  LatencyHistogram clat;

  /// Bytes and requests a second of that time; 0 where nothing moved.
  double bytes_per_second() const noexcept { return per_second(io_bytes); }
  double ios_per_second() const noexcept { return per_second(total_ios); }
  /// Adds what another thread did at the same time.
  void merge(const DirectionResult& other);

 private:
  double per_second(std::uint64_t count) const noexcept {
    return runtime_ns == 0 ? 0 : static_cast<double>(count) * 1e9 / static_cast<double>(runtime_ns);
  }
};

/// What a swap engine did for a job. Times in nanoseconds.
struct SwapResult {
  std::uint64_t stall_ns = 0;
  std::uint64_t hits = 0;
  std::uint64_t late = 0;
  std::uint64_t misses = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t pageable_bytes = 0;  ///< the most that leases took beside the pool
  std::uint64_t pool_waits = 0;
  std::uint64_t padding_bytes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t busy_ns = 0;    ///< of the drive
  std::uint64_t hidden_ns = 0;  ///< of `busy_ns`: while compute went on

  /// Share of the drive's busy time that compute hid, 0 to 1.
  double overlap() const noexcept;
  /// The job's CPU for each 1e9 bytes that the drive moved; 0 where none were.
  double cpu_ms_per_gb(const CpuTime& cpu) const noexcept;
  /// Adds what another thread's engine did at the same time.
  void merge(const SwapResult& other);
};

/// Ours over a peer's.
struct PairRatios {
  std::vector<double> all;  ///< of every pair, in their order
  double median = 0;
  double iqr = 0;
  double low = 0;  ///< where the median lies with 95 % confidence
  double high = 0;
};

/// Pairs of runs on the same files, in turns.
struct PairResult {
  std::string peer;
  std::string peer_settings;
  PairRatios bandwidth;
  PairRatios cpu;  ///< CPU a byte
  /// Of the peer's shortest run, where that is too short for the peer's clock; 0: none is.
  double short_seconds = 0;

  /// Why the ratios say little, a sentence; empty where they hold.
  std::string warning() const;
};

/// One job of one thread, or all threads of a `group_reporting` group together.
struct JobResult {
  std::string name;
  std::size_t job = 0;  ///< its place in the list of jobs; of a group, the first one's
  std::uint32_t group = 0;
  std::uint32_t threads = 1;
  int error = 0;              ///< 0 or an errno
  std::string error_message;  ///< a whole sentence
  bool interrupted = false;   ///< by the user: what is here is what was done
  DirectionResult read;
  DirectionResult write;
  std::vector<std::vector<Sample>> courses;  ///< one a thread; of raw jobs bytes alone
  std::uint64_t elapsed_ns = 0;
  CpuTime cpu;                            ///< of all threads that worked for it
  std::optional<CpuTime> process_before;  ///< of the whole process, when measuring began
  std::optional<SwapResult> swap;
  std::optional<PairResult> pair;

  /// What so many seconds are of the time of all threads, in percent; as fio's usr_cpu.
  double cpu_percent(double seconds) const noexcept;
  /// CPU of all threads for each 1e9 bytes moved; 0 where nothing was.
  double cpu_ms_per_gb() const noexcept;
  /// Keeps why it failed. What has no errno of its own is a job that makes no sense.
  void fail(const Error& why);
  /// Why, where `error` is not 0.
  Error failure() const;
  /// Adds what another thread of the same group did at the same time; of two errors the first one
  /// is kept. Leaves `pair` alone.
  void merge(const JobResult& other);
};

}  // namespace penstock::bench
