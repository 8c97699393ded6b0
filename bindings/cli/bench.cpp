#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/job/job_echo.h"
#include "bench/job/job_file.h"
#include "bench/pair/paired_run.h"
#include "bench/process/python.h"
#include "bench/report/bandwidth_log.h"
#include "bench/report/draughtsman.h"
#include "bench/report/html_report.h"
#include "bench/report/json_report.h"
#include "bench/report/run_picture.h"
#include "bench/report/terse_report.h"
#include "bench/report/text_report.h"
#include "bindings/cli/bench_compare.h"
#include "bindings/cli/interruption.h"
#include "bindings/cli/own_command.h"
#include "bindings/cli/planned_jobs.h"
#include "bindings/cli/status_line.h"
#include "bindings/cli/verb.h"

namespace penstock::cli {
namespace {

using bench::Job;
using bench::Report;

constexpr const char* kBenchFooter =
    "Job files are fio's: [global], a section a job, key=value. A key on the command line "
    "overrides\n"
    "those of the files; --name=NAME begins a job of its own.\n"
    "Keys of fio with fio's meaning:\n"
    "  name rw bs bssplit size io_size offset directory filename nrfiles numjobs iodepth ioengine\n"
    "  direct fallocate fsync end_fsync invalidate unlink fixedbufs thread thinktime runtime\n"
    "  time_based ramp_time loops rwmixread randseed verify stonewall group_reporting\n"
    "  percentile_list write_bw_log\n"
    "Keys for what fio cannot do:\n"
    "  workload inventory config phase compute max_pinned ram lookahead integrity pair pairs\n"
    "Examples:\n"
    "  penstock bench --name=read --directory=/nvme0 --rw=read --bs=1m --size=4g --direct=1 \\\n"
    "      --ioengine=uring --iodepth=8\n"
    "  penstock bench nightly.job --runtime=30 --output-format=json --output=nightly.json\n"
    "Exit status 0: all went well, 1: an error, a difference found by verify, or Ctrl-C (after a\n"
    "report of what was done; the second one ends at once), 2: wrong usage.";

constexpr std::array<std::string_view, 4> kFormats = {"normal", "terse", "json", "json+"};

struct BenchOptions {
  std::vector<std::string> files;
  std::vector<std::string> formats{"normal"};
  std::string output;
  std::string plot;
  std::string html;
  std::string eta = "auto";
  bool parse_only = false;
  bool show_command = false;
};

std::string render(const Report& report, std::string_view format) {
  if (format == "terse") {
    return terse_report(report);
  }
  if (format == "json" || format == "json+") {
    return json_report(report, format == "json+");
  }
  return text_report(report);
}

Result<void> write_output(const std::string& path, const std::string& text) {
  if (path.empty()) {
    fmt::print("{}", text);
    return {};
  }
  errno = 0;
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    return system_error(errno != 0 ? errno : EIO, fmt::format("cannot write {}", path), path);
  }
  return {};
}

Result<StatusLine::When> parse_eta(const std::string& text) {
  using When = StatusLine::When;
  if (text == "auto") {
    return When::kAuto;
  }
  if (text == "always" || text == "never") {
    return text == "always" ? When::kAlways : When::kNever;
  }
  return fault(Fault::kInvalidArgument,
               fmt::format("--eta={} is none of always, never and auto", text));
}

std::vector<std::string> options_of(const Job& job) {
  std::vector<std::string> options = bench::command_keys(job);
  for (std::string& option : options) {
    option.erase(0, option.find_first_not_of('-'));
  }
  return options;
}

// The first error, with how many there were; nothing where all went well.
std::string failure(const std::vector<bench::JobResult>& results) {
  std::string sentence;
  std::size_t failed = 0;
  bool interrupted = false;
  for (const bench::JobResult& result : results) {
    interrupted = interrupted || result.interrupted;
    if (result.error == 0 && result.error_message.empty()) {
      continue;
    }
    sentence = failed == 0 ? fmt::format("{}: {}", result.name, result.error_message) : sentence;
    ++failed;
  }
  if (failed > 1) {
    sentence += fmt::format(" ({} of {} results have errors)", failed, results.size());
  }
  return failed == 0 && interrupted ? "interrupted: the report says what was done until then"
                                    : sentence;
}

// Whoever draws is looked for before anything runs: the answer after an hour would come late.
Result<std::optional<bench::Draughtsman>> find_draughtsman(const BenchOptions& options) {
  if (options.plot.empty() && options.html.empty()) {
    return std::optional<bench::Draughtsman>();
  }
  Result<bench::Draughtsman> found = bench::Draughtsman::find(bench::pythons());
  if (found.has_error()) {
    return std::move(found).error();
  }
  return std::optional(std::move(*found));
}

// The figures first, so that nothing that goes wrong with a picture takes them along; a page
// without its picture says why.
Result<void> write_report(const BenchOptions& options, const Report& report,
                          const std::optional<bench::Draughtsman>& draughtsman) {
  std::string text;
  for (const std::string& format : options.formats) {
    text += render(report, format);
  }
  PENSTOCK_TRY(write_output(options.output, text));
  PENSTOCK_TRY(write_bandwidth_logs(report));
  if (!draughtsman) {
    return {};
  }
  const Result<std::string> picture = draughtsman->draw(run_picture(report));
  if (!options.html.empty()) {
    PENSTOCK_TRY(write_output(options.html, html_report(report, picture)));
  }
  PENSTOCK_TRY(picture);
  return options.plot.empty() ? Result<void>() : write_output(options.plot, *picture);
}

int run_jobs(const BenchOptions& options, const std::vector<Job>& jobs, StatusLine::When eta) {
  const Result<std::optional<bench::Draughtsman>> draughtsman = find_draughtsman(options);
  if (draughtsman.has_error()) {
    return failed(draughtsman.error());
  }
  Report report;
  report.jobs = jobs;
  std::ranges::transform(jobs, std::back_inserter(report.job_options), options_of);
  report.version = PENSTOCK_VERSION;
  report.command = own_command();
  std::error_code unknown;
  report.directory = std::filesystem::current_path(unknown).string();
  report.time = std::chrono::system_clock::now();
  {
    const Interruption interruption;
    StatusLine status(eta);
    bench::PairedRunOptions watched;
    watched.benchmark.progress = [&status](const auto& progress) { status.show(progress); };
    watched.benchmark.interrupted = [&interruption] { return interruption.asked_for(); };
    Result<std::vector<bench::JobResult>> results = run_with_peers(jobs, watched);
    if (results.has_error()) {
      return failed(results.error());
    }
    report.results = std::move(*results);
  }
  if (!options.html.empty()) {
    report.plans = planned_jobs(jobs);
  }
  if (const Result<void> written = write_report(options, report, *draughtsman);
      written.has_error()) {
    return failed(written.error());
  }
  const std::string problem = failure(report.results);
  if (!problem.empty()) {
    report_error(problem);
  }
  return problem.empty() ? kDone : kFailed;
}

int run_bench(const BenchOptions& options, const std::vector<std::string>& keys) {
  const Result<StatusLine::When> eta = parse_eta(options.eta);
  if (eta.has_error()) {
    report_error(eta.error().message);
    return kWrongUsage;
  }
  const Result<std::vector<Job>> jobs = bench::load_jobs(options.files, keys);
  if (jobs.has_error()) {
    report_error(jobs.error().message);
    // A file that cannot be read is the world's fault, and what is written in it the caller's.
    return jobs.error().system_errno() != 0 ? kFailed : kWrongUsage;
  }
  if (jobs->empty()) {
    report_error(
        "there is no job: give a job file, or a job by --name=NAME and its keys; "
        "`penstock bench --help` has examples");
    return kWrongUsage;
  }
  if (options.show_command) {
    for (const Job& job : *jobs) {
      fmt::print("{}\n", bench::command_line(job));
    }
  }
  return options.show_command || options.parse_only ? kDone : run_jobs(options, *jobs, *eta);
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("bench", "Measure drives with fio's jobs and with tensors");
  verb->footer(kBenchFooter);
  verb->allow_extras();
  const auto options = std::make_shared<BenchOptions>();
  verb->add_option("JOBFILE", options->files, "Job files; further arguments are --key=value");
  verb->add_option("--output-format", options->formats,
                   "normal, terse, json, json+ or several of them; json+ has every latency bucket")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(kFormats.begin(), kFormats.end())));
  verb->add_option("--output", options->output, "Write the report to this file");
  verb->add_option("--plot", options->plot,
                   "Draw bandwidth, pinned memory and stalls over time into this SVG file (needs "
                   "Python with matplotlib, as --html does)");
  verb->add_option("--html", options->html,
                   "Write a page with results, plots and plans to this file");
  verb->add_option("--eta", options->eta, "Show progress: always, never, auto (on a terminal)");
  verb->add_flag("--parse-only", options->parse_only, "Read the jobs and run nothing");
  verb->add_flag("--showcmd", options->show_command, "Print each job as a command; run nothing");
  add_bench_compare(*verb, exit_code);
  verb->callback([verb, options, &exit_code] {
    if (verb->get_subcommands().empty()) {
      exit_code = run_bench(*options, verb->remaining());
    }
  });
}

}  // namespace penstock::cli
