#include "bindings/deepspeed/drive_contents.h"

#include <algorithm>

#include "alloc/bytes.h"
#include "swap/plan/rule_demand.h"

namespace penstock {
namespace {

// Contents on their way to a drive that keeps up, however little pinned memory there is.
constexpr std::uint64_t kKeepingUpBytes = 64 * kMiB;

// DeepSpeed builds it on the drive, whatever becomes of it later.
bool is_built(const TrainingSetup& setup, std::size_t i) {
  const std::vector<TensorInfo>& listed = setup.inventory.tensors;
  return setup.has_config && setup.param_device() == OffloadDevice::kNvme && i < listed.size() &&
         listed[i].role == Role::kParam && setup.is_large(listed[i]);
}

// Before there is a plan ram_bytes go to rules and then to what comes first.
std::vector<bool> fills_ram_first(const std::vector<PlanTensor>& tensors,
                                  const std::vector<bool>& is_built, const EngineConfig& config,
                                  std::uint64_t ram_bytes) {
  const std::vector<const TensorRule*> rules = governing_rules(tensors, config);
  std::vector<bool> in_ram(tensors.size());
  const auto keep = [&](std::size_t i) {
    in_ram[i] = tensors[i].bytes <= ram_bytes;
    ram_bytes -= in_ram[i] ? tensors[i].bytes : 0;
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (rules[i] != nullptr && rules[i]->place == Place::kRam) {
      keep(i);
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (rules[i] == nullptr && (tensors[i].swappable || is_built[i])) {
      keep(i);
    }
  }
  return in_ram;
}

}  // namespace

DriveContents expect_drive_contents(const TrainingSetup& setup, const EngineConfig& config,
                                    const std::vector<PlanTensor>& tensors,
                                    const Placement& placement, std::uint64_t held_bytes) {
  std::vector<bool> built(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    built[i] = is_built(setup, i);
  }
  const std::vector<bool> in_ram =
      fills_ram_first(tensors, built, config, placement.budgets.ram_bytes);
  DriveContents contents;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_there_first = !in_ram[i] && (built[i] || tensors[i].swappable);
    if (tensors[i].bytes != 0 && (is_on_drive(placement.tensors[i].place) || is_there_first)) {
      contents.tensors.push_back({i, built[i] || tensors[i].writes_per_step != 0});
    }
  }
  // Pinned slots and pageable memory hold what is on its way: see OverflowAccount.
  contents.behind_bytes = placement.pinned_bytes + held_bytes + kWriteBackSlackBytes;
  contents.behind_keeping_up_bytes =
      std::min(std::max(placement.pinned_bytes, kKeepingUpBytes), contents.behind_bytes);
  return contents;
}

}  // namespace penstock
