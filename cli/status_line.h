#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "bench/benchmark.h"

namespace penstock::cli {

/// What runs now, how fast and for how long still, on the terminal that stderr is; gone when this
/// object is. Where it is shown without a terminal, each state is a line of its own.
class StatusLine {
 public:
  /// `when`: always, never or auto (on a terminal). With an interval each state that comes after so
  /// much time is a line of its own, whatever `when` says.
  explicit StatusLine(const std::string& when,
                      std::optional<std::chrono::nanoseconds> interval = {});
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// From one thread at a time.
  void show(const bench::BenchmarkProgress& progress);

 private:
  bool on_terminal_;
  std::uint64_t interval_ns_;
  bool enabled_;
  bool shown_ = false;
  bench::BenchmarkProgress last_;
};

}  // namespace penstock::cli
