#include <fmt/format.h>
#include <sys/utsname.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/memlock_limit.h"
#include "cli/doctor_report.h"
#include "cli/machine_facts.h"
#include "cli/verb.h"
#include "swap/plan/budgets.h"

namespace penstock::cli {
namespace {

// Slots and staging of a default configuration.
constexpr std::uint64_t kPinnedDefault = 64 * kMiB;

struct DoctorOptions {
  std::vector<std::string> paths;
  bool as_json = false;
};

std::string read_kernel() {
  utsname name{};
  return ::uname(&name) == 0 ? fmt::format("{} {} ({})", name.sysname, name.release, name.machine)
                             : "not known";
}

void read_meminfo(DoctorReport& report) {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t value = 0;
    words >> key >> value;
    if (key == "MemTotal:") {
      report.mem_total_bytes = value * kKiB;
    } else if (key == "HugePages_Total:") {
      report.huge_pages_reserved = value;
    } else if (key == "HugePages_Free:") {
      report.huge_pages_free = value;
    } else if (key == "Hugepagesize:") {
      report.huge_page_bytes = value * kKiB;
    }
  }
}

// The word in brackets of `always [madvise] never`.
std::string read_transparent_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  return begin == std::string::npos || end == std::string::npos
             ? std::string()
             : line.substr(begin + 1, end - begin - 1);
}

void conclude(DoctorReport& report) {
  bool chosen = false;
  for (const EngineCandidate& engine : report.engines) {
    if (engine.usable && !chosen) {
      report.uses.push_back(fmt::format("engine {}", engine.name));
      chosen = true;
    } else if (!engine.usable) {
      report.advice.push_back(fmt::format("engine {}: {}", engine.name, engine.reason));
    }
  }
  if (!report.numa_home.reason.empty()) {
    report.uses.push_back(report.numa_home.reason);
  }
  if (report.huge_pages_free != 0 && report.huge_page_bytes == kHugePageBytes) {
    report.uses.push_back(fmt::format("{} reserved huge pages, for buffers that are whole ones",
                                      report.huge_pages_free));
  }
  if (report.memlock_bytes && *report.memlock_bytes < kPinnedDefault) {
    report.advice.push_back(
        fmt::format("this user may lock {} of memory, less than the {} of a default configuration; "
                    "raise `ulimit "
                    "-l` (memlock in /etc/security/limits.conf) or lower max_pinned_bytes",
                    format_bytes(*report.memlock_bytes), format_bytes(kPinnedDefault)));
  }
  if (report.transparent_huge_pages == "never") {
    report.advice.emplace_back(
        "transparent huge pages are off; `echo madvise > "
        "/sys/kernel/mm/transparent_hugepage/enabled` makes large buffers cheaper");
  }
  for (const Gpu& gpu : report.gpus) {
    if (!gpu.usable) {
      report.advice.push_back(fmt::format("GPU {}: {}", gpu.name, gpu.reason));
    }
  }
  for (const PathCheckup& path : report.paths) {
    if (path.usable) {
      report.uses.push_back(
          fmt::format("{} with {} I/O", path.path, path.direct.supported ? "direct" : "buffered"));
    } else {
      report.advice.push_back(path.problem);
    }
    report.advice.insert(report.advice.end(), path.advice.begin(), path.advice.end());
  }
}

DoctorReport examine(const DoctorOptions& options) {
  DoctorReport report;
  report.kernel = read_kernel();
  report.engines = probe_engines();
  report.memlock_bytes = memlock_limit_bytes();
  read_meminfo(report);
  report.mem_available_bytes = read_mem_available_bytes();
  report.transparent_huge_pages = read_transparent_huge_pages();
  const Result<std::shared_ptr<const NumaTopology>> numa = NumaTopology::read();
  if (numa) {
    report.numa = (*numa)->nodes();
    report.numa_home = (*numa)->home();
  } else {
    report.numa_problem = numa.error().message;
  }
  report.gpus = list_gpus();
  report.device_runtimes = look_for_devices();
  for (const DeviceRuntime& runtime : report.device_runtimes) {
    report.direct_storage.push_back(look_for_direct_storage(runtime.name));
  }
  const std::vector<Mount> mounts = read_mounts();
  for (const std::string& path : options.paths) {
    report.paths.push_back(check_path(path, mounts));
  }
  conclude(report);
  return report;
}

int run_doctor(const DoctorOptions& options) {
  // Before there is any thread: cuFile leaves a log of each refusal in the current directory.
  (void)::setenv("CUFILE_LOGFILE_PATH", "/dev/null", 0);
  const DoctorReport report = examine(options);
  fmt::print("{}", options.as_json ? report.json() : report.text());
  for (const PathCheckup& path : report.paths) {
    if (!path.usable) {
      report_error(path.problem);
    }
  }
  return report.healthy() ? kDone : kFailed;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "doctor", "What this machine offers for swapping, what will be used and what to change");
  verb->footer(
      "Exit status 1 if a given path cannot serve. Nothing is left behind there.\n"
      "Example:\n  penstock doctor --path /nvme0 --path /nvme1");
  const auto options = std::make_shared<DoctorOptions>();
  verb->add_option("--path", options->paths, "A directory to swap to; may be given several times")
      ->allow_extra_args(false)
      ->type_name("DIR");
  verb->add_flag("--json", options->as_json, "One JSON document (penstock.doctor/1)");
  verb->callback([options, &exit_code] { exit_code = run_doctor(*options); });
}

}  // namespace penstock::cli
