#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/pair/deepspeed_process.h"
#include "bench/pair/peer_program.h"
#include "bench/workload/scratch_directory.h"

namespace penstock::bench {

/// DeepSpeed as a peer: one Python process for all runs, whose own CPU time counts, and the
/// settings it may be given.
class DeepSpeedPeer final : public PeerProgram {
 public:
  struct Parts {
    std::string what;                   ///< of DeepSpeed is measured, for people
    std::vector<std::string> settings;  ///< one JSON object a candidate; at least one
    std::uint64_t io_size = 0;          ///< of a run, where its caller says none; 0: all there is
    std::optional<ScratchDirectory> directory;  ///< of the process's files
    DeepSpeedProcess process;
  };
  explicit DeepSpeedPeer(Parts parts) : parts_(std::move(parts)) {}

  std::string_view name() const noexcept override { return "deepspeed"; }
  std::size_t candidates() const noexcept override { return parts_.settings.size(); }
  std::string describe(std::size_t candidate) const override;
  Result<MeasuredRun> run(std::size_t candidate, std::uint64_t io_size) override;

 private:
  Parts parts_;  // the process goes before its directory
};

}  // namespace penstock::bench
