#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "bench/job/job_file.h"
#include "bench/job/job_value.h"
#include "bench/pair/paired_run.h"
#include "bench/process/child_process.h"
#include "bench/report/plot_program.h"
#include "bench/report/report.h"
#include "cli/bench_compare.h"
#include "cli/interruption.h"
#include "cli/output_file.h"
#include "cli/own_command.h"
#include "cli/progress_line.h"
#include "cli/verb.h"

namespace penstock::cli {
namespace {

using bench::BenchmarkProgress;
using bench::Job;
using bench::Report;

constexpr const char* kBenchFooter =
    "Job files are fio's: [global], a section a job, key=value. A key on the command line "
    "overrides those of the files; --name=NAME begins a job of its own.\n"
    "Keys of fio with fio's meaning: name rw bs size io_size directory filename numjobs iodepth "
    "ioengine direct unlink fixedbufs rate cpus_allowed runtime time_based ramp_time loops "
    "rwmixread stonewall group_reporting.\n"
    "Keys of swapping: workload inventory config phase compute max_pinned ram lookahead integrity "
    "verify trace pair pairs.\n"
    "Examples:\n"
    "  penstock bench --name=read --directory=/nvme0 --rw=read --bs=1m --size=4g\n"
    "  penstock bench nightly.job --runtime=30 --output-format=json > nightly.json\n"
    "Exit status 0: all went well, 1: an error, a difference found by verify, or Ctrl-C (after a "
    "report of what was done; the second one ends at once), 2: wrong usage.";

struct BenchOptions {
  std::vector<std::string> files;
  std::string format = "normal";
  std::string output;
  std::string plot;
  std::string eta = "auto";
  std::optional<std::chrono::nanoseconds> status_interval;
  bool parse_only = false;
};

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

// Before anything runs, so that none is for nothing. The Python that draws; empty: no plot is asked
// for.
Result<std::string> prepare_outputs(const BenchOptions& options) {
  for (const std::string& path : {options.output, options.plot}) {
    if (!path.empty()) {
      PENSTOCK_TRY(check_output(path));
    }
  }
  return options.plot.empty() ? std::string() : bench::find_plot_python(bench::pythons());
}

// The figures first, so that a plot that fails does not cost them.
Result<void> write_report(const BenchOptions& options, const Report& report,
                          const std::string& plot_python) {
  const std::string text = options.format == "json" ? json_report(report) : text_report(report);
  if (options.output.empty()) {
    fmt::print("{}", text);
  } else {
    PENSTOCK_TRY(write_output(options.output, text));
  }
  if (options.plot.empty()) {
    return {};
  }
  const Result<std::string> plot = bench::draw_plot(plot_python, json_report(report, true));
  PENSTOCK_TRY(plot);
  return write_output(options.plot, *plot);
}

std::string speed(const char* verb, std::uint64_t now, std::uint64_t before, double seconds) {
  if (now == 0 || now < before || seconds <= 0) {
    return {};
  }
  const auto a_second = static_cast<std::uint64_t>(static_cast<double>(now - before) / seconds);
  return fmt::format(", {} {}/s", verb, format_bytes(a_second));
}

// `2 jobs, 43 % done, reading 1.2 GiB/s, 3 s left`; speeds are those since `last`, which is
// forgotten where a new group of jobs has begun.
std::string describe_progress(const BenchmarkProgress& now, const BenchmarkProgress& last) {
  const bool same_jobs = now.elapsed_ns > last.elapsed_ns;
  const BenchmarkProgress before = same_jobs ? last : BenchmarkProgress{};
  const double seconds = static_cast<double>(now.elapsed_ns - before.elapsed_ns) * 1e-9;
  std::string text = now.jobs_running == 0
                         ? "laying out files"
                         : fmt::format("{}, {:.0f} % done", counted(now.jobs_running, "job"),
                                       std::floor(100 * now.share_done));
  text += speed("reading", now.read_bytes, before.read_bytes, seconds);
  text += speed("writing", now.write_bytes, before.write_bytes, seconds);
  if (now.jobs_running != 0 && now.share_done > 0) {
    const double elapsed = static_cast<double>(now.elapsed_ns) * 1e-9;
    text +=
        fmt::format(", {:.0f} s left", std::ceil(elapsed * (1 - now.share_done) / now.share_done));
  }
  return text;
}

Result<std::vector<bench::JobResult>> run_watched(const BenchOptions& options,
                                                  const std::vector<Job>& jobs) {
  const Interruption interruption(bench::kill_child);
  ProgressLine line({}, options.eta, options.status_interval);
  bench::PairedRunOptions watched;
  watched.benchmark.progress = [&line, last = BenchmarkProgress()](const auto& now) mutable {
    if (line.is_due()) {
      line.show(describe_progress(now, std::exchange(last, now)));
    }
  };
  watched.benchmark.interrupted = [&interruption] { return interruption.asked_for(); };
  return run_with_peers(jobs, watched);
}

int run_jobs(const BenchOptions& options, const std::vector<Job>& jobs) {
  const Result<std::string> plot_python = prepare_outputs(options);
  if (plot_python.has_error()) {
    return failed(plot_python.error());
  }
  Report report;
  report.jobs = jobs;
  report.version = PENSTOCK_VERSION;
  report.command = own_command();
  report.time = std::chrono::system_clock::now();
  Result<std::vector<bench::JobResult>> results = run_watched(options, jobs);
  if (results.has_error()) {
    return failed(results.error());
  }
  report.results = std::move(*results);
  if (const Result<void> written = write_report(options, report, *plot_python);
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
  const Result<std::vector<Job>> jobs = bench::load_jobs(options.files, keys);
  if (jobs.has_error()) {
    return no_jobs(jobs.error());
  }
  return options.parse_only ? kDone : run_jobs(options, *jobs);
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("bench", "Measure drives and swapping, with fio's job files");
  verb->footer(kBenchFooter);
  verb->allow_extras();
  const auto options = std::make_shared<BenchOptions>();
  verb->add_option("JOBFILE", options->files, "Job files; further arguments are --key=value");
  verb->add_option("--output-format", options->format, "normal or json")
      ->check(CLI::IsMember(std::vector<std::string>{"normal", "json"}));
  verb->add_option("--output", options->output, "Write the report to this file");
  verb->add_option("--plot", options->plot,
                   "Draw bandwidth, pinned memory and stalls over time into this SVG file (needs "
                   "Python with matplotlib)");
  verb->add_option("--eta", options->eta, "Show progress: always, never, auto (on a terminal)")
      ->check(CLI::IsMember(std::vector<std::string>{"always", "never", "auto"}));
  const auto read_interval = [options](const std::string& text) {
    std::uint64_t ns = 0;
    if (bench::read_time(text, bench::kSecondNs, ns) || ns == 0) {
      throw CLI::ValidationError("--status-interval",
                                 fmt::format("\"{}\" is no interval such as 10s", text));
    }
    options->status_interval = std::chrono::nanoseconds(ns);
  };
  verb->add_option_function<std::string>(
          "--status-interval", read_interval,
          "A line of progress on standard error each time so much has passed (10s)")
      ->type_name("TIME");
  verb->add_flag("--parse-only", options->parse_only, "Read the jobs and run nothing");
  add_bench_compare(*verb, exit_code);
  verb->callback([verb, options, &exit_code] {
    if (verb->get_subcommands().empty()) {
      exit_code = run_bench(*options, verb->remaining());
    }
  });
}

}  // namespace penstock::cli
