#include "bindings/deepspeed/feasibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "alloc/bytes.h"

namespace penstock {
namespace {

// Behind every tensor's bytes on a drive there is one block that says whose they are.
constexpr std::uint64_t kIdentityBytes = kBlockBytes;

std::uint64_t extent_bytes(const PlanTensor& tensor) noexcept {
  return align_up(tensor.bytes, kBlockBytes) + kIdentityBytes;
}

// Adds up extents in the order of the tensors: what the drives need once a tensor is on them.
class DriveDemand {
 public:
  explicit DriveDemand(std::uint64_t behind_bytes) : behind_(behind_bytes) {}

  void add(const PlanTensor& tensor, bool is_rewritten) {
    const std::uint64_t bytes = extent_bytes(tensor);
    largest_ = std::max(largest_, bytes);
    bytes_ += bytes;
    if (is_rewritten) {
      rewritten_ += bytes;
      largest_rewritten_ = std::max(largest_rewritten_, bytes);
      padding_ += bytes - tensor.bytes;
      if (spare_sizes_.insert(bytes).second) {
        spare_ += bytes;
      }
    }
  }
  // In whole blocks, as limits count: new contents alone may end within one.
  DriveNeed need() const noexcept {
    return {bytes_ == 0 ? 0 : align_up(bytes_ + new_contents(), kBlockBytes), largest_};
  }
  std::uint64_t bytes(std::size_t drives) const noexcept {
    return need().bytes + gap_bytes(need(), drives);
  }

 private:
  // All of them at most, and one that finds no gap of its size.
  std::uint64_t new_contents() const noexcept {
    return std::min(rewritten_ + largest_rewritten_, behind_ + padding_ + spare_);
  }

  std::uint64_t behind_;
  std::uint64_t bytes_ = 0;
  std::uint64_t largest_ = 0;
  std::uint64_t rewritten_ = 0;
  std::uint64_t largest_rewritten_ = 0;
  std::uint64_t padding_ = 0;
  std::uint64_t spare_ = 0;
  std::set<std::uint64_t> spare_sizes_;
};

// A rank's parameters, and all else: each has files of its own.
struct DemandByRole {
  explicit DemandByRole(std::uint64_t behind_bytes)
      : parameters(behind_bytes), states(behind_bytes) {}

  void add(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
           const DriveTensor& tensor) {
    const std::vector<TensorInfo>& listed = setup.inventory.tensors;
    const bool is_parameter =
        tensor.index < listed.size() && listed[tensor.index].role == Role::kParam;
    (is_parameter ? parameters : states).add(tensors[tensor.index], tensor.is_rewritten);
  }
  std::uint64_t larger_bytes(std::size_t drives) const noexcept {
    return std::max(parameters.bytes(drives), states.bytes(drives));
  }

  DriveDemand parameters;
  DriveDemand states;
};

DemandByRole demand_of(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                       const DriveContents& contents, std::uint64_t behind_bytes) {
  DemandByRole demand(behind_bytes);
  for (const DriveTensor& tensor : contents.tensors) {
    demand.add(setup, tensors, tensor);
  }
  return demand;
}

// Of all paths together; nothing where one has no limit.
std::optional<std::uint64_t> stated_limit(const std::vector<PathConfig>& paths) {
  std::uint64_t limit = 0;
  for (const PathConfig& path : paths) {
    if (!path.max_bytes) {
      return std::nullopt;
    }
    // Each file is used in whole blocks. Limits beyond any disk are there to mean "none".
    limit += std::min(align_down(*path.max_bytes, kBlockBytes), std::uint64_t{1} << 58);
  }
  return paths.empty() ? std::nullopt : std::optional(limit);
}

std::string describe_limit(const std::vector<PathConfig>& paths, std::uint64_t limit) {
  return paths.size() == 1
             ? fmt::format("max_bytes of {} for {}", *paths[0].max_bytes, paths[0].path)
             : fmt::format("the sum of max_bytes over penstock.paths, each in whole {} bytes, {},",
                           kBlockBytes, limit);
}

}  // namespace

Feasibility infeasible(const Error& error) {
  return {false, error.message, error.tensor};
}

std::vector<DriveNeed> drive_needs_by_path(const TrainingSetup& setup,
                                           const std::vector<PlanTensor>& tensors,
                                           const DriveContents& contents) {
  if (!setup.config.has_path_for_each()) {
    DriveDemand demand(contents.behind_bytes);
    for (const DriveTensor& tensor : contents.tensors) {
      demand.add(tensors[tensor.index], tensor.is_rewritten);
    }
    return {demand.need()};
  }
  const DemandByRole demand = demand_of(setup, tensors, contents, contents.behind_bytes);
  return {demand.parameters.need(), demand.states.need()};
}

std::uint64_t gap_bytes(const DriveNeed& need, std::size_t drives) noexcept {
  return need.bytes == 0 || drives < 2 ? 0 : (drives - 1) * (need.largest_bytes - kBlockBytes);
}

Feasibility check_drives(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                         const DriveContents& contents, const std::vector<PathConfig>& paths) {
  const std::optional<std::uint64_t> limit = stated_limit(paths);
  if (!limit) {
    return {};
  }
  DemandByRole least(contents.behind_keeping_up_bytes);
  const PlanTensor* first_too_many = nullptr;
  for (const DriveTensor& tensor : contents.tensors) {
    least.add(setup, tensors, tensor);
    if (first_too_many == nullptr && least.larger_bytes(paths.size()) > *limit) {
      first_too_many = &tensors[tensor.index];
    }
  }
  if (first_too_many == nullptr) {
    return {};
  }
  const DemandByRole enough = demand_of(setup, tensors, contents, contents.behind_bytes);
  return {false,
          fmt::format("{} ({} bytes) does not fit on the drives: {} is too small; drives that "
                      "keep up need {} bytes; on any drive the smallest value that works is {}",
                      first_too_many->name, first_too_many->bytes, describe_limit(paths, *limit),
                      least.larger_bytes(paths.size()), enough.larger_bytes(paths.size())),
          first_too_many->name};
}

std::vector<PlanWarning> warn_about_limits(const TrainingSetup& setup,
                                           const std::vector<PlanTensor>& tensors,
                                           const DriveContents& contents,
                                           const std::vector<PathConfig>& paths) {
  const std::optional<std::uint64_t> limit = stated_limit(paths);
  if (!limit) {
    return {};
  }
  const auto needed = [&](std::uint64_t behind_bytes) {
    return demand_of(setup, tensors, contents, behind_bytes).larger_bytes(paths.size());
  };
  const std::uint64_t enough = needed(contents.behind_bytes);
  if (*limit < needed(contents.behind_keeping_up_bytes) || *limit >= enough) {
    return {};
  }
  return {{"drive-limit",
           fmt::format("{} leaves less room for new contents on their way than there may be: where "
                       "the drive falls behind, training stops with an error; on any drive the "
                       "smallest value that works is {}",
                       describe_limit(paths, *limit), enough),
           "penstock.paths"}};
}

}  // namespace penstock
