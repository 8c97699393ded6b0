#include "bench/pair/deepspeed_swapper_peer.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bench/pair/deepspeed_process.h"
#include "bench/pair/handle_settings.h"
#include "bench/workload/swap/job_model.h"
#include "bench/workload/swap/phase_order.h"
#include "bench/workload/swap/run_length.h"
#include "bench/workload/swap/swap_inventory.h"

namespace penstock::bench {
namespace {

using nlohmann::json;
using Action = TensorUse::Action;

constexpr std::uint32_t kDepth = 16;
constexpr std::size_t kStates = 3;  // master, exp_avg, exp_avg_sq

Error cannot(const Job& job, const char* what) {
  return fault(Fault::kInvalidArgument,
               fmt::format("job {}: DeepSpeed's swappers {}", job.name, what));
}

/// A directory for DeepSpeed's files, removed with what is in it.
class PeerDirectory {
 public:
  static Result<PeerDirectory> make(const std::string& below) {
    std::string path = (below.empty() ? "." : below) + "/deepspeed-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return system_error(errno, fmt::format("cannot make a directory in {}", below), below);
    }
    return PeerDirectory(std::filesystem::absolute(path).string());
  }
  PeerDirectory(PeerDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PeerDirectory& operator=(PeerDirectory&&) = delete;
  ~PeerDirectory() {
    std::error_code ignored;
    if (!path_.empty()) {
      std::filesystem::remove_all(path_, ignored);
    }
  }
  const std::string& path() const { return path_; }

 private:
  explicit PeerDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved from
};

/// The work as the script is told of it.
class Work {
 public:
  Work(const Job& job, const SwapInventory& inventory) : job_(job), inventory_(inventory) {}

  Result<json> describe(const std::string& directory) {
    PENSTOCK_TRY(number_parameters());
    PENSTOCK_TRY(add_groups());
    add_order();
    return json{{"directory", directory},
                {"dtype", element_bytes_ == 4 ? "float32" : "bfloat16"},
                {"elements", elements_},
                {"groups", groups_},
                {"order", order_},
                {"loops", job_.loops},
                {"spins", !job_.compute || job_.compute->spins}};
  }

 private:
  Result<void> number_parameters() {
    numbers_.resize(inventory_.tensors.size());
    for (const std::uint32_t tensor : inventory_.parameters) {
      const TensorInfo& info = inventory_.tensors[tensor];
      const std::uint64_t element_bytes = dtype_bytes(info.dtype);
      if (element_bytes_ != 0 && element_bytes != element_bytes_) {
        return cannot(job_, "hold parameters of one type, and these are of several");
      }
      element_bytes_ = element_bytes;
      numbers_[tensor] = elements_.size();
      elements_.push_back(info.bytes() / element_bytes);
    }
    if (element_bytes_ != 0 && element_bytes_ != 2 && element_bytes_ != 4) {
      return cannot(job_, "take parameters of 16 or 32 bits");
    }
    return {};
  }

  Result<void> add_groups() {
    const bool steps = job_.phase == Phase::kStep || job_.phase == Phase::kTrain;
    for (const SwapInventory::SubGroup& group : inventory_.sub_groups) {
      if (!steps) {
        break;
      }
      if (group.states.size() != kStates) {
        return cannot(job_, "keep a master and two moments of each group, and no group without");
      }
      std::vector<std::size_t> parameters;
      for (const std::uint32_t tensor : group.parameters) {
        parameters.push_back(numbers_[tensor]);
      }
      groups_.push_back({{"elements", inventory_.bytes(group.states.front()) / sizeof(float)},
                         {"parameters", std::move(parameters)}});
    }
    return {};
  }

  // A group's fetches, writes and commits are one entry here.
  void add_order() {
    std::size_t group = 0;
    bool in_group = false;
    for (const TensorUse& use : phase_order(inventory_, job_.phase)) {
      if (use.action == Action::kRead) {
        order_.push_back({"parameter", numbers_[use.tensor], compute_after(use.tensor)});
      } else if (use.action == Action::kFetch && !std::exchange(in_group, true)) {
        order_.push_back({"group", group, kStates * compute_after(use.tensor)});
        ++group;
      }
      in_group = in_group && use.action != Action::kCommit;
    }
  }

  std::uint64_t compute_after(std::uint32_t tensor) const {
    return job_.compute ? compute_ns(*job_.compute, inventory_.bytes(tensor)) : 0;
  }

  const Job& job_;
  const SwapInventory& inventory_;
  std::uint64_t element_bytes_ = 0;
  std::vector<std::size_t> numbers_;  // of each tensor among the parameters
  std::vector<std::uint64_t> elements_;
  json groups_ = json::array();
  json order_ = json::array();
};

std::vector<HandleSettings> candidates_for(const Job& job, const SwapInventory& inventory) {
  std::vector<HandleSettings> all = handle_candidates(
      job.read_blocks.empty() ? kMiB : job.read_blocks.front().bytes, job.iodepth.value_or(kDepth));
  const bool steps = job.phase == Phase::kStep || job.phase == Phase::kTrain;
  if (steps && inventory.sub_groups.size() > 1) {
    const std::size_t plain = all.size();
    for (std::size_t i = 0; i < plain; ++i) {
      all.push_back(all[i]);
      all.back().pipelined = true;
    }
  }
  return all;
}

class DeepSpeedSwapperPeer final : public PeerProgram {
 public:
  DeepSpeedSwapperPeer(PeerDirectory directory, std::vector<HandleSettings> candidates,
                       DeepSpeedProcess process)
      : directory_(std::move(directory)),
        candidates_(std::move(candidates)),
        process_(std::move(process)) {}

  std::string_view name() const noexcept override { return "deepspeed"; }
  std::size_t candidates() const noexcept override { return candidates_.size(); }
  std::string describe(std::size_t candidate) const override {
    return "swappers, aio " + candidates_[candidate].json(true);
  }
  Result<Leg> run(std::size_t candidate, std::uint64_t io_size) override {
    return process_.run_leg(fmt::format(R"({{"settings": {}, "io_size": {}}})",
                                        candidates_[candidate].json(true), io_size));
  }

 private:
  PeerDirectory directory_;  // outlives the process
  std::vector<HandleSettings> candidates_;
  DeepSpeedProcess process_;
};

}  // namespace

Result<void> check_for_swappers(const Job& job) {
  if (job.runtime_ns || job.numjobs > 1) {
    return cannot(job,
                  "go through a model `loops` times in one thread: leave out runtime, numjobs");
  }
  return {};
}

Result<std::unique_ptr<PeerProgram>> make_deepspeed_swapper_peer(const Job& job) {
  PENSTOCK_TRY(check_for_swappers(job));
  const Result<TrainingSetup> setup = job_model(job);
  PENSTOCK_TRY(setup);
  const SwapInventory inventory = swap_inventory(*setup, job.phase);
  Result<PeerDirectory> directory = PeerDirectory::make(job.directory);
  if (directory.has_error()) {
    return std::move(directory).error();
  }
  const Result<json> work = Work(job, inventory).describe(directory->path());
  PENSTOCK_TRY(work);
  Result<DeepSpeedProcess> process =
      DeepSpeedProcess::start(DeepSpeedProcess::Script::kSwappers, work->dump());
  if (process.has_error()) {
    return std::move(process).error();
  }
  return std::make_unique<DeepSpeedSwapperPeer>(
      std::move(directory).value(), candidates_for(job, inventory), std::move(process).value());
}

}  // namespace penstock::bench
