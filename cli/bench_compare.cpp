#include "cli/bench_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "alloc/bytes.h"
#include "bench/pair/report_comparison.h"
#include "bindings/inventory/input_file.h"
#include "cli/document_text.h"
#include "cli/printable.h"
#include "cli/text_table.h"
#include "cli/verb.h"

namespace penstock::cli {
namespace {

using bench::ComparisonRow;
using bench::ReportComparison;
using nlohmann::ordered_json;

// A report with its histograms has some 100 KiB a job.
constexpr std::uint64_t kReportBytesMax = 256 * kMiB;

struct CompareOptions {
  std::string before;
  std::string after;
  std::string max_regression = "5%";
  bool as_json = false;
};

// `5%` as 0.05; nothing for anything that is not between 0 and 100 %.
std::optional<double> parse_percent(const std::string& text) {
  double percent = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, percent);
  const bool is_within = percent >= 0 && percent <= 100;  // false for "nan"
  if (error != std::errc{} || std::string_view(rest, end) != "%" || !is_within) {
    return std::nullopt;
  }
  return percent / 100;
}

std::string check_percent(const std::string& text) {
  return parse_percent(text) ? std::string()
                             : fmt::format("\"{}\" is no percentage such as 5%", text);
}

std::string amount(double value, const bench::FigureUnit& unit) {
  return fmt::format("{:.{}f}{}", value * unit.shown_as, unit.decimals, unit.suffix);
}

std::string interval_text(const ComparisonRow& row) {
  return row.interval ? fmt::format("{:+.1f} to {:+.1f} %", row.interval->low * 100,
                                    row.interval->high * 100)
                      : std::string("one run");
}

std::string plain_text(const ReportComparison& comparison) {
  using enum Align;
  TextTable table({{"job", kLeft},
                   {"figure", kLeft},
                   {"before", kRight},
                   {"after", kRight},
                   {"change", kRight},
                   {"with 95 %", kRight},
                   {"verdict", kLeft}});
  for (const ComparisonRow& row : comparison.rows) {
    table.add({printable(row.job), row.figure, amount(row.before, *row.unit),
               amount(row.after, *row.unit), fmt::format("{:+.1f} %", row.change * 100),
               interval_text(row), std::string(row.verdict)});
  }
  std::string text = table.text();
  for (const std::string& sentence : comparison.missing) {
    text += fmt::format("missing  {}\n", printable(sentence));
  }
  for (const std::string& job : comparison.added) {
    text += fmt::format("new      {}\n", printable(job));
  }
  return text;
}

ordered_json row_json(const ComparisonRow& row) {
  return {{"job", row.job},
          {"figure", row.figure},
          {"unit", row.unit->name},
          {"before", {{"median", row.before}, {"runs", row.runs_before}}},
          {"after", {{"median", row.after}, {"runs", row.runs_after}}},
          {"change", row.change},
          {"low", row.interval ? ordered_json(row.interval->low) : ordered_json()},
          {"high", row.interval ? ordered_json(row.interval->high) : ordered_json()},
          {"verdict", row.verdict}};
}

std::string json_text(const CompareOptions& options, const ReportComparison& comparison) {
  ordered_json rows = ordered_json::array();
  for (const ComparisonRow& row : comparison.rows) {
    rows.push_back(row_json(row));
  }
  const ordered_json document{{"schema", "penstock.bench.compare/1"},
                              {"before", options.before},
                              {"after", options.after},
                              {"max_regression", *parse_percent(options.max_regression)},
                              {"regressed", comparison.regressed()},
                              {"rows", std::move(rows)},
                              {"missing", comparison.missing},
                              {"added", comparison.added}};
  return document_text(document);
}

Result<bench::RecordedRuns> read_runs(const std::string& path) {
  const Result<std::string> text = read_text_file(path, kReportBytesMax);
  PENSTOCK_TRY(text);
  return bench::read_recorded_runs(*text, path);
}

Result<ReportComparison> compare(const CompareOptions& options) {
  const Result<bench::RecordedRuns> before = read_runs(options.before);
  PENSTOCK_TRY(before);
  const Result<bench::RecordedRuns> after = read_runs(options.after);
  PENSTOCK_TRY(after);
  ReportComparison comparison =
      compare_reports(*before, *after, *parse_percent(options.max_regression));
  if (comparison.rows.empty() && after->failures.empty()) {
    return fault(Fault::kInvalidArgument,
                 before->failures.empty()
                     ? fmt::format("{} and {} have no figure of a job of the same name",
                                   options.before, options.after)
                     : before->failures.front());
  }
  return comparison;
}

int run_compare(const CompareOptions& options) {
  const Result<ReportComparison> comparison = compare(options);
  if (comparison.has_error()) {
    return failed(comparison.error());
  }
  fmt::print("{}", options.as_json ? json_text(options, *comparison) : plain_text(*comparison));
  if (!comparison->regressed()) {
    return kDone;
  }
  const auto worse = std::ranges::count(comparison->rows, "worse", &ComparisonRow::verdict);
  report_error(fmt::format("{} of {} figures are worse by more than {}, {} are missing in {}",
                           worse, comparison->rows.size(), options.max_regression,
                           comparison->missing.size(), options.after));
  return kFailed;
}

}  // namespace

void add_bench_compare(CLI::App& bench, int& exit_code) {
  CLI::App* verb = bench.add_subcommand("compare", "Whether a second report is worse than a first");
  verb->footer(
      "Both are written by `penstock bench --output-format=json`; reports one after another in a "
      "file are runs of the same jobs. With two runs or pairs a side, a figure is worse only if "
      "all of its interval is; `unclear` means that more runs are needed. Of jobs with the same "
      "peer in both, ratios to it count instead of bandwidth and CPU. Stalls are shares of the "
      "run time, compared by difference. Exit status 1 if a figure is worse or missing.\n"
      "Example:\n"
      "  penstock bench my.job --output-format=json >> after.json\n"
      "  penstock bench compare before.json after.json --max-regression 5%");
  const auto options = std::make_shared<CompareOptions>();
  verb->add_option("A.json", options->before, "Reports of before")->required();
  verb->add_option("B.json", options->after, "Reports of after")->required();
  verb->add_option("--max-regression", options->max_regression, "How much worse is too much")
      ->check(check_percent)
      ->capture_default_str()
      ->type_name("PERCENT");
  verb->add_flag("--json", options->as_json, "One JSON document (penstock.bench.compare/1)");
  verb->allow_extras(false);  // `bench` takes keys of jobs
  verb->callback([verb, options, &exit_code] {
    const std::vector<std::string>& jobs = verb->get_parent()->get_option("JOBFILE")->results();
    if (!jobs.empty()) {
      throw CLI::ExtrasError(jobs);
    }
    exit_code = run_compare(*options);
  });
}

}  // namespace penstock::cli
