#include "bindings/deepspeed/machine_fit.h"

#include <fmt/format.h>

#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "alloc/bytes.h"
#include "swap/plan/saturating.h"

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

PlanWarning drive_misfit(const MachineFacts& machine, std::string code, std::string text) {
  return {std::move(code), std::move(text), {}, {}, !machine.is_elsewhere};
}

// What some paths hold together: all of them, or each its own.
struct DriveUse {
  std::span<const PathFacts> paths;
  std::uint64_t needed = 0;
};

// A file system that several paths are on is free once.
std::uint64_t free_bytes_of(std::span<const PathFacts> paths) {
  std::set<std::uint64_t> counted;
  std::uint64_t bytes = 0;
  for (const PathFacts& path : paths) {
    if (!path.drive || counted.insert(*path.drive).second) {
      bytes += path.free_bytes;
    }
  }
  return bytes;
}

std::vector<DriveUse> uses_of(std::span<const PathFacts> paths,
                              const std::vector<std::uint64_t>& bytes) {
  const bool is_divided = bytes.size() == 2 && paths.size() == 2;
  if (is_divided && !(paths[0].drive && paths[0].drive == paths[1].drive)) {
    return {{paths.first(1), bytes[0]}, {paths.last(1), bytes[1]}};
  }
  return {{paths, std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0})}};
}

void warn_about_space(const MachineFacts& machine, const TrainingSetup& setup,
                      const std::vector<std::uint64_t>& drive_bytes,
                      std::vector<PlanWarning>& warnings) {
  for (const DriveUse& use : uses_of(machine.paths, drive_bytes)) {
    const std::uint64_t needed = multiply_saturating(use.needed, setup.ranks_on_node);
    const std::uint64_t free_bytes = free_bytes_of(use.paths);
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
                                            const std::vector<std::uint64_t>& drive_bytes,
                                            const ProcessMemory& process) {
  std::vector<PlanWarning> warnings;
  // Not what loading takes: a mapped checkpoint gives way.
  const std::uint64_t host = multiply_saturating(
      process.runtime_bytes + process.planned_bytes + process.device_bytes, setup.ranks_on_node);
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
  if (machine.memlock_bytes && placement.pinned_bytes > *machine.memlock_bytes) {
    warnings.push_back(
        {"memlock", fmt::format("{} are to be pinned, but this user may lock {} here; raise "
                                "`ulimit -l` or memlock in /etc/security/limits.conf",
                                amount(placement.pinned_bytes), amount(*machine.memlock_bytes))});
  }
  warn_about_paths(machine, warnings);
  warn_about_space(machine, setup, drive_bytes, warnings);
  return warnings;
}

}  // namespace penstock
