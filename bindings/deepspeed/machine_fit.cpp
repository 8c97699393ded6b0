#include "bindings/deepspeed/machine_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "alloc/bytes.h"
#include "swap/plan/saturating.h"
#include "swap/store/store_drives.h"

namespace penstock {
namespace {

std::string amount(std::uint64_t bytes) {
  return fmt::format("{} bytes ({})", bytes, format_bytes(bytes));
}

std::string ranks_need(const TrainingSetup& setup) {
  return setup.ranks_on_node == 1
             ? "1 rank of this machine needs"
             : fmt::format("{} ranks of this machine need", setup.ranks_on_node);
}

std::uint64_t host_bytes(const TrainingSetup& setup, const ProcessMemory& process) {
  return multiply_saturating(process.training_bytes(), setup.ranks_on_node);
}

PlanWarning drive_misfit(const MachineFacts& machine, std::string code, std::string text) {
  return {std::move(code), std::move(text), {}, {}, !machine.is_elsewhere};
}

// Of parameters and of states, on each drive.
constexpr std::uint64_t kFilesOfRank = 2;

// What some paths hold together: all of them, or each its own.
struct DriveUse {
  std::span<const PathFacts> paths;
  DriveNeed need;  // of a rank
};

// What some paths have together. A file system that several are on is there once.
struct DriveRoom {
  std::size_t drives = 0;
  std::uint64_t free_bytes = 0;
};

DriveRoom room_on(std::span<const PathFacts> paths) {
  std::set<std::uint64_t> counted;
  DriveRoom room;
  for (const PathFacts& path : paths) {
    if (!path.drive || counted.insert(*path.drive).second) {
      ++room.drives;
      room.free_bytes += path.free_bytes;
    }
  }
  return room;
}

std::vector<DriveUse> uses_of(std::span<const PathFacts> paths,
                              const std::vector<DriveNeed>& needs) {
  const bool is_divided = needs.size() == 2 && paths.size() == 2;
  if (is_divided && !(paths[0].drive && paths[0].drive == paths[1].drive)) {
    return {{paths.first(1), needs[0]}, {paths.last(1), needs[1]}};
  }
  DriveNeed all;
  for (const DriveNeed& need : needs) {
    all.bytes += need.bytes;
    all.largest_bytes = std::max(all.largest_bytes, need.largest_bytes);
  }
  return {{paths, all}};
}

// Of all ranks. What one rank's files have grown by and not used yet is no use to another's.
std::uint64_t needed_bytes(const DriveNeed& need, std::uint64_t ranks, std::size_t drives) {
  if (need.bytes == 0) {
    return 0;
  }
  const std::uint64_t unused = (ranks - 1) * kFilesOfRank * drives * StoreDrives::kGrowthBytes;
  return add_saturating(multiply_saturating(need.bytes, ranks), gap_bytes(need, drives) + unused);
}

void warn_about_space(const MachineFacts& machine, const TrainingSetup& setup,
                      const std::vector<DriveNeed>& drives, std::vector<PlanWarning>& warnings) {
  for (const DriveUse& use : uses_of(machine.paths, drives)) {
    const auto [drive_count, free_bytes] = room_on(use.paths);
    const std::uint64_t needed = needed_bytes(use.need, setup.ranks_on_node, drive_count);
    if (!use.paths.empty() && free_bytes < needed) {
      const std::string drive = use.paths.size() == machine.paths.size()
                                    ? "the drives are"
                                    : fmt::format("the drive of {} is", use.paths[0].path);
      warnings.push_back(drive_misfit(
          machine, "drive-space",
          fmt::format("{} {} short: {} {}, {} are free", drive, format_bytes(needed - free_bytes),
                      ranks_need(setup), amount(needed), amount(free_bytes))));
    }
  }
}

void warn_about_paths(const MachineFacts& machine, std::vector<PlanWarning>& warnings) {
  // Looked at even where everything is kept in RAM: training opens a store there all the same.
  for (const PathFacts& path : machine.paths) {
    if (!path.problem.empty()) {
      warnings.push_back(drive_misfit(
          machine, "path-unusable", fmt::format("{} cannot be used: {}", path.path, path.problem)));
    } else if (!path.exists) {
      warnings.push_back(
          {"path-missing", fmt::format("{} is not there on this machine; it is created when "
                                       "training starts",
                                       path.path)});
    }
  }
}

}  // namespace

std::vector<PlanWarning> warn_about_machine(const MachineFacts& machine, const TrainingSetup& setup,
                                            const Placement& placement,
                                            const std::vector<DriveNeed>& drives,
                                            const ProcessMemory& process) {
  std::vector<PlanWarning> warnings;
  const std::uint64_t host = host_bytes(setup, process);
  if (machine.mem_available_bytes != 0 && host > machine.mem_available_bytes) {
    warnings.push_back(
        {"memory",
         fmt::format("memory is {} short: {} {} with Python, torch and what "
                     "the runtime holds at once, {} are available",
                     format_bytes(host - machine.mem_available_bytes), ranks_need(setup),
                     amount(host), amount(machine.mem_available_bytes)),
         {},
         {},
         true});
  }
  const std::uint64_t pinned = placement.pinned_bytes + placement.budgets.device_bytes;
  if (machine.memlock_bytes && pinned > *machine.memlock_bytes) {
    warnings.push_back(
        {"memlock", fmt::format("{} are to be pinned, but this user may lock {} here; raise "
                                "`ulimit -l` or memlock in /etc/security/limits.conf",
                                amount(pinned), amount(*machine.memlock_bytes))});
  }
  warn_about_paths(machine, warnings);
  warn_about_space(machine, setup, drives, warnings);
  return warnings;
}

std::vector<PlanWarning> warn_about_default(const MachineFacts& machine, const TrainingSetup& setup,
                                            const Placement& placement,
                                            const ProcessMemory& process) {
  const Budgets& budgets = placement.budgets;
  const std::uint64_t pinned = add_saturating(budgets.max_pinned_bytes, budgets.device_bytes);
  const std::uint64_t enough =
      multiply_saturating(multiply_saturating(pinned, 4), setup.ranks_on_node);  // the quarter
  if (enough <= host_bytes(setup, process)) {
    return {};
  }
  return {
      {"memory",
       fmt::format("memory is {} short: max_pinned_bytes is by default a quarter of it, divided "
                   "by the ranks of this machine, and {} leave too little; {} are enough",
                   format_bytes(enough - machine.mem_available_bytes),
                   amount(machine.mem_available_bytes), amount(enough)),
       "penstock.max_pinned_bytes",
       {},
       true}};
}

}  // namespace penstock
