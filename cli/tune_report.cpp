#include "cli/tune_report.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "alloc/bytes.h"
#include "cli/document_text.h"
#include "cli/optional_json.h"
#include "cli/plan_json.h"
#include "cli/plan_text.h"
#include "cli/printable.h"
#include "cli/text_table.h"
#include "cli/tuned_values.h"

namespace penstock::cli {
namespace {

using Json = ConfigDraft::Json;
using Seconds = std::optional<double>;

// A step of one rank, while the node's ranks share the drives.
struct Step {
  const SwapPlan* plan = nullptr;
  Seconds expected;     ///< ours, at the speed of the mix
  Seconds lower_bound;  ///< reading and writing at once
};

double of_megabytes(double bytes_per_second) {
  return bytes_per_second / 1e6;
}

Seconds seconds(std::uint64_t bytes, double bytes_per_second, std::uint32_t ranks) {
  return bytes_per_second > 0 ? Seconds(static_cast<double>(bytes) * ranks / bytes_per_second)
                              : std::nullopt;
}

// On the drives that were measured, with these paths: of the old file what its plan alone changes.
Step step_of(const TuneReport& report, const SwapPlan& plan) {
  const std::uint32_t ranks = plan.setup.ranks_on_node;
  return {&plan,
          seconds(plan.traffic.read_bytes + plan.traffic.write_bytes,
                  report.tuning->used_bytes_per_second(), ranks),
          lower_bound_seconds(plan.traffic, report.after->setup.config.paths(), ranks)};
}

std::string drives_text(const TuneReport& report) {
  const bench::DriveTuning& tuning = *report.tuning;
  std::string text =
      fmt::format("Drives, as a rank's {} tensors ({}) use them; {} trials of {:.2f} s\n",
                  report.mix->tensors, format_bytes(report.mix->bytes), tuning.trials,
                  std::chrono::duration<double>(tuning.trial_length).count());
  TextTable table(
      {{"path"},
       {"reads MB/s", Align::kRight},
       {"writes MB/s", Align::kRight},
       {fmt::format("{:.0f} % reads MB/s", 100 * report.mix->read_share()), Align::kRight}});
  for (const bench::PathSpeed& path : tuning.paths) {
    table.add({printable(path.path), fmt::format("{:.0f}", of_megabytes(path.read)),
               fmt::format("{:.0f}", of_megabytes(path.write)),
               fmt::format("{:.0f}", of_megabytes(path.mixed))});
  }
  if (tuning.together) {
    table.add({"together", "", "", fmt::format("{:.0f}", of_megabytes(tuning.together->after))});
  }
  return text + table.text();
}

std::string cell(const Seconds& seconds) {
  return seconds ? fmt::format("{:.3g} s", *seconds) : "-";
}

std::string steps_text(const TuneReport& report) {
  const Step before = step_of(report, *report.before);
  const Step after = step_of(report, *report.after);
  TextTable table({{""}, {"old", Align::kRight}, {"new", Align::kRight}});
  const auto bytes = [&](const char* what, std::uint64_t StepTraffic::* member) {
    table.add({what, format_bytes(before.plan->traffic.*member),
               format_bytes(after.plan->traffic.*member)});
  };
  bytes("penstock reads", &StepTraffic::read_bytes);
  bytes("penstock writes", &StepTraffic::write_bytes);
  table.add({"  at the speed of that mix", cell(before.expected), cell(after.expected)});
  table.add({"  lower bound", cell(before.lower_bound), cell(after.lower_bound)});
  std::string text = "\nEach step of a rank, on these drives\n" + table.text();
  if (report.before->stock.error) {
    text += fmt::format("  (stock DeepSpeed dies with the old file: {})\n",
                        printable(*report.before->stock.error));
  }
  return text;
}

Json advantage_json(const std::optional<bench::Advantage>& advantage) {
  if (!advantage) {
    return nullptr;
  }
  return {{"ratio", advantage->ratio},
          {"low", advantage->confidence.low},
          {"high", advantage->confidence.high},
          {"turns", advantage->turns}};
}

Json step_json(const Step& step) {
  return {{"read_bytes", step.plan->traffic.read_bytes},
          {"write_bytes", step.plan->traffic.write_bytes},
          {"lower_bound_seconds", or_null(step.lower_bound)},
          {"expected_seconds", or_null(step.expected)}};
}

Json paths_json(const bench::DriveTuning& tuning) {
  Json list = Json::array();
  for (std::size_t path = 0; path < tuning.paths.size(); ++path) {
    const bench::PathSpeed& speed = tuning.paths[path];
    list.push_back({{"path", speed.path},
                    {"read_bytes_per_second", speed.read},
                    {"write_bytes_per_second", speed.write},
                    {"mixed_bytes_per_second", speed.mixed},
                    {"used", std::ranges::find(tuning.used, path) != tuning.used.end()}});
  }
  return list;
}

Json changes_json(const std::vector<ConfigRow>& rows) {
  Json list = Json::array();
  for (const ConfigRow& row : rows) {
    list.push_back({{"key", row.key},
                    {"old", row.before},
                    {"new", row.after},
                    {"changed", row.changed},
                    {"why", row.why}});
  }
  return list;
}

}  // namespace

std::string tune_text(const TuneReport& report) {
  return drives_text(report) + "\nConfiguration (=: as it was)\n" +
         comparison_text(report.emitted->rows) + steps_text(report) + warnings_text(*report.after);
}

std::string tune_json(const TuneReport& report) {
  const bench::DriveTuning& tuning = *report.tuning;
  const Json document{{"schema", "penstock.tune/1"},
                      {"interrupted", tuning.interrupted},
                      {"trials", tuning.trials},
                      {"trial_seconds", std::chrono::duration<double>(tuning.trial_length).count()},
                      {"mix",
                       {{"tensors", report.mix->tensors},
                        {"bytes", report.mix->bytes},
                        {"read_share", report.mix->read_share()}}},
                      {"paths", paths_json(tuning)},
                      {"together", advantage_json(tuning.together)},
                      {"per_step",
                       {{"old", step_json(step_of(report, *report.before))},
                        {"new", step_json(step_of(report, *report.after))}}},
                      {"changes", changes_json(report.emitted->rows)},
                      {"warnings", warnings_json(*report.after)},
                      {"config", report.emitted->document}};
  return document_text(document, 1);
}

}  // namespace penstock::cli
