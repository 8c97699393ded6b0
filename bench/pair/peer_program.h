#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "alloc/result.h"
#include "bench/pair/measured_run.h"

namespace penstock::bench {

/// Another program that can do a job's work. Used by one thread.
class PeerProgram {
 public:
  PeerProgram() = default;
  virtual ~PeerProgram() = default;
  PeerProgram(const PeerProgram&) = delete;
  PeerProgram& operator=(const PeerProgram&) = delete;

  virtual std::string_view name() const noexcept = 0;
  /// How many settings are worth a trial, at least one; described as a user would write them.
  virtual std::size_t candidates() const noexcept = 0;
  virtual std::string describe(std::size_t candidate) const = 0;
  /// Does the work once. Blocks. `io_size`: instead of the job's; 0: the job's.
  virtual Result<MeasuredRun> run(std::size_t candidate, std::uint64_t io_size) = 0;
};

}  // namespace penstock::bench
