#include "cli/checkpoint_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "cli/document_text.h"
#include "cli/printable.h"
#include "cli/text_table.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kNamesShown = 2;
constexpr std::size_t kLinesShown = 8;  // of a kind, above the tables

template <class Value>
ordered_json nullable(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json nullable(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

/// "layers.0.weight, layers.1.weight and 14 more".
std::string some_names(std::span<const std::string> names) {
  const std::size_t shown = std::min(names.size(), kNamesShown);
  std::string text = fmt::format("{}", fmt::join(names.first(shown), ", "));
  if (names.size() > shown) {
    text += fmt::format(" and {} more", names.size() - shown);
  }
  return printable(text);
}

std::string_view kind_of(const CheckpointFile& file) {
  return file.shard ? shard_kind_name(file.shard->kind) : "other";
}

ordered_json file_json(const CheckpointFile& file) {
  ordered_json document{{"name", file.name},
                        {"kind", kind_of(file)},
                        {"rank", nullptr},
                        {"model_parallel_rank", nullptr},
                        {"bytes", file.bytes},
                        {"records", file.records},
                        {"checksums", file.has_checksums},
                        {"problem", nullable(file.problem)}};
  if (file.shard) {
    document["model_parallel_rank"] = file.shard->mp_rank;
    if (file.shard->rank) {
      document["rank"] = *file.shard->rank;
    }
  }
  return document;
}

ordered_json tensor_json(const ModelTensor& tensor) {
  ordered_json document{{"name", tensor.name},
                        {"dtype", nullable(tensor.dtype)},
                        {"shape", tensor.shape},
                        {"role", tensor.role},
                        {"bytes", tensor.bytes}};
  if (!tensor.same_as.empty()) {
    document["same_as"] = tensor.same_as;
  }
  return document;
}

ordered_json weights_json(const ModelWeights& weights) {
  return {{"directory", weights.directory}, {"files", weights.files},
          {"tensors", weights.tensors},     {"empty_tensors", weights.empty_tensors},
          {"bytes", weights.bytes},         {"stub", weights.is_stub()},
          {"problems", weights.problems}};
}

ordered_json states_json(const StateTotals& states) {
  ordered_json list = ordered_json::array();
  for (const auto& [kind, total] : states) {
    list.push_back({{"name", kind.first},
                    {"dtype", kind.second},
                    {"tensors", total.tensors},
                    {"elements", total.elements},
                    {"bytes", total.bytes}});
  }
  return list;
}

std::string headed_line(std::string_view heading, std::string_view text) {
  return fmt::format("{:<11} {}\n", heading, printable(text));
}

/// A line each, and how many more there are.
std::string headed_lines(std::string_view heading, const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t at = 0; at < std::min(items.size(), kLinesShown); ++at) {
    text += headed_line(heading, items[at]);
  }
  if (items.size() > kLinesShown) {
    text += headed_line(heading,
                        fmt::format("and {} more (--json names them)", items.size() - kLinesShown));
  }
  return text;
}

std::string stage_text(const CheckpointSummary& summary) {
  const std::int64_t stage = summary.zero_stage.value_or(0);
  return stage > 0 ? fmt::format("ZeRO stage {}", stage) : "no ZeRO";
}

std::string tensors_text(const CheckpointSummary& summary) {
  std::map<std::string, std::uint64_t> roles;
  std::set<std::string> dtypes;
  for (const ModelTensor& tensor : summary.tensors) {
    ++roles[tensor.role];
    if (!tensor.dtype.empty()) {
      dtypes.insert(tensor.dtype);
    }
  }
  std::vector<std::string> counts;
  counts.reserve(roles.size());
  for (const auto& [role, count] : roles) {
    counts.push_back(fmt::format("{} {}", count, role));
  }
  return fmt::format(
      "{} ({}), {} in {}", summary.tensors.size(), fmt::join(counts, ", "),
      format_bytes(summary.tensor_bytes()),
      dtypes.empty() ? "no type that is known" : fmt::format("{}", fmt::join(dtypes, ", ")));
}

std::string resume_text(const CheckpointSummary& summary) {
  const Resumption& resumption = summary.resumption;
  if (!resumption.is_possible()) {
    return fmt::format("no: {}", fmt::join(resumption.obstacles, "; "));
  }
  if (!resumption.world_size) {
    return "yes, with any world size";
  }
  const char* const converts = summary.surplus_files > 0 ? "" : ", ds_to_universal.py converts";
  return fmt::format("yes, with world size {}; DeepSpeed refuses any other{}",
                     *resumption.world_size, converts);
}

std::string head_text(const CheckpointSummary& summary) {
  const CheckpointPlace& place = summary.place;
  std::string text = headed_line(
      "checkpoint",
      fmt::format("{} ({}{})", place.tag_directory,
                  summary.version.empty() ? "" : fmt::format("DeepSpeed {}, ", summary.version),
                  summary.is_universal ? "universal" : stage_text(summary)));
  const std::string steps = fmt::format("{}", fmt::join(summary.optimizer_steps, ", "));
  text +=
      headed_line("step", (summary.step ? fmt::format("{}", *summary.step) : "not known") +
                              (steps.empty() ? "" : fmt::format("; the optimizer's: {}", steps)));
  text += headed_line("ranks", fmt::format("{} data-parallel, {} model-parallel",
                                           summary.data_parallel, summary.model_parallel));
  text += headed_line("tensors", tensors_text(summary));
  for (const auto& [kind, total] : summary.states) {
    text += headed_line(
        "states", fmt::format("{} in {}, {}", kind.first, kind.second, format_bytes(total.bytes)));
  }
  text += headed_line(
      "files", fmt::format("{}, {}", summary.files.size(), format_bytes(summary.file_bytes())));
  text += headed_line("resume", resume_text(summary));
  text += headed_lines("missing", summary.missing);
  text += headed_lines("left over", summary.leftovers);
  text += headed_lines("note", summary.notes);
  if (!place.others.empty()) {
    text += headed_line("also here", some_names(place.others));
  }
  return text;
}

std::string files_text(const CheckpointSummary& summary) {
  TextTable files({{"kind"},
                   {"rank", Align::kRight},
                   {"size", Align::kRight},
                   {"records", Align::kRight},
                   {"checksums"},
                   {"file"}});
  for (const CheckpointFile& file : summary.files) {
    const bool has_rank = file.shard && file.shard->rank;
    files.add({std::string(kind_of(file)), has_rank ? fmt::format("{}", *file.shard->rank) : "",
               format_bytes(file.bytes), fmt::format("{}", file.records),
               file.has_checksums ? "CRC-32" : "none",
               printable(file.problem.empty() ? file.name : file.problem)});
  }
  return files.text();
}

ordered_json damage_json(const DamagedPart& part) {
  return {{"file", part.file},
          {"path", part.path},
          {"record", nullable(part.record)},
          {"place", nullable(part.place)},
          {"tensors", part.tensors},
          {"problem", part.reason}};
}

std::string damage_text(const DamagedPart& part) {
  if (part.record.empty()) {
    return fmt::format("bad  {}\n", printable(part.reason));
  }
  std::string what;
  if (!part.place.empty()) {
    what = fmt::format(" ({}{})", part.place,
                       part.tensors.empty() ? "" : ": " + some_names(part.tensors));
  }
  return fmt::format("bad  {}, record {}{}: {}\n", printable(part.path), printable(part.record),
                     printable(what), printable(part.reason));
}

}  // namespace

std::string summary_json(const CheckpointSummary& summary) {
  const CheckpointPlace& place = summary.place;
  ordered_json document{{"schema", "penstock.inspect-checkpoint/1"},
                        {"directory", place.named},
                        {"save_directory", nullable(place.save_directory)},
                        {"tag", place.tag},
                        {"tag_directory", place.tag_directory},
                        {"others", place.others},
                        {"deepspeed_version", nullable(summary.version)},
                        {"zero_stage", nullable(summary.zero_stage)},
                        {"universal", summary.is_universal},
                        {"step", nullable(summary.step)},
                        {"optimizer_steps", summary.optimizer_steps},
                        {"data_parallel", summary.data_parallel},
                        {"model_parallel", summary.model_parallel},
                        {"resume",
                         {{"possible", summary.resumption.is_possible()},
                          {"world_size", nullable(summary.resumption.world_size)},
                          {"obstacles", summary.resumption.obstacles}}},
                        {"missing", summary.missing},
                        {"leftovers", summary.leftovers},
                        {"notes", summary.notes},
                        {"offloaded_files", summary.offloaded_files},
                        {"offloaded_bytes", summary.offloaded_bytes},
                        {"tensor_count", summary.tensors.size()},
                        {"bytes", summary.tensor_bytes()},
                        {"states", states_json(summary.states)},
                        {"file_bytes", summary.file_bytes()},
                        {"files", ordered_json::array()},
                        {"weights", ordered_json::array()},
                        {"tensors", ordered_json::array()}};
  for (const CheckpointFile& file : summary.files) {
    document["files"].push_back(file_json(file));
  }
  for (const ModelWeights& weights : place.weights) {
    if (!weights.files.empty()) {
      document["weights"].push_back(weights_json(weights));
    }
  }
  for (const ModelTensor& tensor : summary.tensors) {
    document["tensors"].push_back(tensor_json(tensor));
  }
  return document_text(document);
}

std::string summary_text(const CheckpointSummary& summary) {
  TextTable tensors({{"tensor"}, {"type"}, {"shape"}, {"size", Align::kRight}, {"role"}});
  for (const ModelTensor& tensor : summary.tensors) {
    const bool is_shared = !tensor.same_as.empty();
    tensors.add({printable(tensor.name), tensor.dtype.empty() ? "?" : printable(tensor.dtype),
                 is_shared ? "" : fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                 format_bytes(tensor.bytes),
                 is_shared ? "is " + printable(tensor.same_as) : tensor.role});
  }
  return head_text(summary) + "\n" + files_text(summary) + "\n" + tensors.text();
}

std::string verification_json(const CheckpointSummary& summary,
                              const CheckpointVerification& verification) {
  ordered_json bad = ordered_json::array();
  for (const DamagedPart& part : verification.damaged) {
    bad.push_back(damage_json(part));
  }
  const ordered_json document{{"schema", "penstock.verify-checkpoint/1"},
                              {"directory", summary.place.named},
                              {"tag_directory", summary.place.tag_directory},
                              {"good", verification.is_good()},
                              {"files", verification.files},
                              {"records", verification.records},
                              {"bytes", verification.bytes},
                              {"without_checksums", verification.without_checksums},
                              {"missing", verification.missing},
                              {"bad", std::move(bad)}};
  return document_text(document);
}

std::string verification_text(const CheckpointSummary& summary,
                              const CheckpointVerification& verification) {
  std::string text;
  for (const DamagedPart& part : verification.damaged) {
    text += damage_text(part);
  }
  for (const std::string& name : verification.missing) {
    text += fmt::format("missing  {}\n", printable(summary.directory + "/" + name));
  }
  text += fmt::format("{}, {}, {}: {} bad, {} missing\n", counted(verification.files, "file"),
                      counted(verification.records, "record"), format_bytes(verification.bytes),
                      verification.damaged.size(), counted(verification.missing.size(), "file"));
  if (!verification.without_checksums.empty()) {
    text += fmt::format(
        "{} of the files carry no checksums ({}): nothing proves their contents; torch.save "
        "computes checksums unless that is turned off, .safetensors has none\n",
        verification.without_checksums.size(), some_names(verification.without_checksums));
  }
  return text;
}

}  // namespace penstock::cli
