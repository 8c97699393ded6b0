#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/utf8.h"
#include "bench/job/job_value.h"
#include "bench/tune/drive_tuning.h"
#include "bindings/inventory/checkpoint.h"
#include "cli/emitted_config.h"
#include "cli/error_output.h"
#include "cli/interruption.h"
#include "cli/output_file.h"
#include "cli/plan_request.h"
#include "cli/printable.h"
#include "cli/progress_line.h"
#include "cli/tune_report.h"
#include "cli/verb.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

constexpr const char* kTuneFooter =
    "What is measured: a file below each DIR, read and written as penstock reads and writes this "
    "model's tensors, in the shares of a training step; each path alone and all together. All are "
    "used only where they are faster than the fastest beyond the noise: by 3 % at the median of "
    "six turns, and by 95 % confidence. The files have no names while they are used, so that "
    "nothing is left of them.\n"
    "Everything else of DS.json stays; `aio`, by which stock DeepSpeed reads and writes, is "
    "measured by its own ds_nvme_tune.\n"
    "Without -o the configuration goes to standard output and the table to standard error.\n"
    "Ctrl-C ends soon with what is known by then (exit status 1); twice, at once.\n"
    "Examples:\n"
    "  penstock tune --path /nvme0 model/ --config ds_config.json -o better.json\n"
    "  penstock tune --path /nvme0 --path /nvme1 model/ > ds_config.json\n"
    "  penstock plan model/ --config better.json";

// A file of so much a second of the budget, so that laying it out takes no large part of it.
constexpr std::uint64_t kFileBytesPerSecond = 32 * kMiB;
constexpr std::uint64_t kFileBytesMin = 128 * kMiB;
constexpr std::uint64_t kFileBytesMax = kGiB;

struct TuneOptions {
  PlanRequest request;
  std::vector<std::string> paths;
  std::string time_budget = "60s";
  std::string output;
  bool as_json = false;
};

nanoseconds budget_of(const std::string& text) {
  std::uint64_t ns = 0;
  (void)bench::read_time(text, bench::kSecondNs, ns);  // checked by check_budget()
  return nanoseconds(ns);
}

std::string check_budget(const std::string& text) {
  std::uint64_t ns = 0;
  if (const bench::Refusal refusal = bench::read_time(text, bench::kSecondNs, ns)) {
    return fmt::format("{} is no time budget: {}", text, *refusal);
  }
  if (ns < static_cast<std::uint64_t>(nanoseconds(bench::kTuningBudgetMin).count()) ||
      ns > std::uint64_t{24} * 3600 * bench::kSecondNs) {
    return fmt::format(
        "{} is no time budget: {} s at least, for less shows nothing, and a "
        "day at most",
        text, bench::kTuningBudgetMin.count());
  }
  return {};
}

// `--path a b model/` means two paths: what has no model in it is a place, not an inventory.
bool holds_no_model(const std::string& path) {
  std::error_code error;
  fs::directory_iterator entries(path, error);
  return !error && std::none_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return is_safetensors(entry.path().filename().string());
  });
}

void take_paths_among_inventories(TuneOptions& options) {
  std::vector<std::string>& inventories = options.request.inventories;
  const auto first = std::ranges::stable_partition(
      inventories, [](const std::string& name) { return !holds_no_model(name); });
  options.paths.insert(options.paths.end(), first.begin(), first.end());
  inventories.erase(first.begin(), first.end());
}

// Those of the command line, which the emitted file has to name from any directory, else of the
// configuration; each directory once.
std::vector<std::string> paths_of(const TuneOptions& options, const Config& config) {
  std::vector<std::string> given;
  for (const std::string& path : options.paths) {
    std::error_code error;
    const fs::path absolute = fs::absolute(path, error);
    given.push_back(error ? path : absolute.lexically_normal().string());
  }
  for (const PathConfig& path :
       options.paths.empty() ? config.paths() : std::vector<PathConfig>{}) {
    given.push_back(path.path);
  }
  std::vector<std::string> paths;
  std::vector<fs::path> seen;
  for (const std::string& path : given) {
    std::error_code error;
    const fs::path place = fs::weakly_canonical(path, error);
    if (std::ranges::find(seen, place) == seen.end()) {
      seen.push_back(place);
      paths.push_back(path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1)
                                                             : path);
    }
  }
  return paths;
}

Result<bench::TuningRequest> tuning_request(const TuneOptions& options, const SwapPlan& plan) {
  bench::TuningRequest request;
  request.budget = budget_of(options.time_budget);
  const Result<bench::DriveMix> mix = bench::drive_mix(plan.tensors);
  PENSTOCK_TRY(mix);
  request.mix = *mix;
  const auto seconds = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(request.budget).count());
  request.file_bytes = std::clamp(seconds * kFileBytesPerSecond, kFileBytesMin, kFileBytesMax);
  request.engine = plan.setup.config.penstock.engine;
  request.paths = paths_of(options, plan.setup.config);
  return request;
}

Result<bench::DriveTuning> measure(bench::TuningRequest& request) {
  const Interruption interruption;
  ProgressLine line;
  request.interrupted = [&interruption] { return interruption.asked_for(); };
  request.progress = [&line](const bench::TuningProgress& progress) {
    if (!line.is_due()) {
      return;
    }
    const std::string speed = progress.bytes_per_second > 0
                                  ? fmt::format(", {:.0f} MB/s", progress.bytes_per_second / 1e6)
                                  : std::string();
    line.show(fmt::format("{}{}, at most {:.0f} s left", progress.doing, speed,
                          std::ceil(std::chrono::duration<double>(progress.left).count())));
  };
  return bench::tune_drives(request);
}

Result<void> write_results(const TuneOptions& options, const TuneReport& report) {
  if (!options.output.empty()) {
    PENSTOCK_TRY(write_output(options.output, report.emitted->json));
  }
  if (options.as_json) {
    fmt::print("{}", tune_json(report));
  } else if (!options.output.empty()) {
    fmt::print("{}", tune_text(report));
  } else {
    fmt::print("{}", report.emitted->json);
    print_error("{}", tune_text(report));
  }
  return {};
}

// What the new file means, by the same options as the old one.
Result<SwapPlan> plan_again(const PlanRequest& request, ConfigSource source,
                            const std::string& json) {
  source.json = json;
  source.origin = "the new configuration";
  Result<Config> config = request.read_config(source);
  if (!config) {
    return std::move(config).error();
  }
  return request.make_plan(std::move(*config), source);
}

int tune_for(const TuneOptions& options, const ConfigSource& source, const SwapPlan& plan) {
  Result<bench::TuningRequest> request = tuning_request(options, plan);
  if (!request) {
    return failed(request.error());
  }
  const Result<bench::DriveTuning> tuning = measure(*request);
  if (!tuning) {
    return failed(tuning.error());
  }
  if (!tuning->measured()) {
    report_error("interrupted before anything was measured; nothing was written");
    return kFailed;
  }
  const EmittedConfig emitted = emit_config(plan, source.json, &*tuning);
  const Result<SwapPlan> after = plan_again(options.request, source, emitted.json);
  if (!after) {
    return failed(after.error());
  }
  const TuneReport results{&plan, &*after, &request->mix, &*tuning, &emitted};
  if (const Result<void> written = write_results(options, results); !written) {
    return failed(written.error());
  }
  if (tuning->interrupted) {
    report_error("interrupted: the configuration has what was measured until then");
  }
  return tuning->interrupted ? kFailed : kDone;
}

int run_tune(TuneOptions& options) {
  take_paths_among_inventories(options);
  if (options.request.inventories.empty() && options.request.trace.empty()) {
    report_error(
        "INVENTORY is required: the model whose tensors are to be moved; `penstock tune "
        "--help` has examples");
    return kWrongUsage;
  }
  const Result<ConfigSource> source = read_config_source(options.request.config_path());
  if (!source) {
    return failed(source.error());
  }
  Result<Config> config = options.request.read_config(*source);
  if (!config) {
    return failed(config.error());
  }
  const std::vector<std::string> paths = paths_of(options, *config);
  if (paths.empty()) {
    report_error(
        "--path is required: a directory on the drive to measure; the configuration "
        "names none");
    return kWrongUsage;
  }
  if (const auto path = std::ranges::find_if_not(paths, is_utf8); path != paths.end()) {
    report_error(
        fmt::format("--path {}: no configuration can name this directory, whose name is not UTF-8",
                    printable(*path)));
    return kFailed;
  }
  if (!options.output.empty()) {
    if (const Result<void> can = check_output(options.output); !can) {
      return failed(can.error());
    }
  }
  const Result<SwapPlan> plan = options.request.make_plan(std::move(*config), *source);
  if (!plan) {
    return failed(plan.error());
  }
  if (!plan->feasibility.feasible) {
    report_error("the plan is not feasible: " + plan->feasibility.reason);
    return kFailed;
  }
  return tune_for(options, *source, *plan);
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "tune", "Measure drives with a model's tensors and write a DeepSpeed configuration for them");
  verb->footer(kTuneFooter);
  const auto options = std::make_shared<TuneOptions>();
  add_job_options(*verb, options->request);
  add_budget_options(*verb, options->request);
  verb->add_option("--path", options->paths,
                   "A directory to swap to, on the drive that is measured; may be given several "
                   "times (default: those of the configuration)")
      ->allow_extra_args(false)
      ->type_name("DIR");
  verb->add_option("--time-budget", options->time_budget,
                   "How long to measure: 60s, 2m; 5s at least (default: 60s)")
      ->check(check_budget)
      ->type_name("TIME");
  verb->add_option("-o,--output", options->output,
                   "Write the configuration to this file, and the table to standard output")
      ->type_name("OUT.json");
  verb->add_flag("--json", options->as_json, "One JSON document (penstock.tune/1)");
  verb->callback([options, &exit_code] { exit_code = run_tune(*options); });
}

}  // namespace penstock::cli
