#include "cli/plan_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bindings/deepspeed/moment_chunks.h"
#include "cli/optional_json.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

ordered_json classes_json(const Placement& placement) {
  ordered_json list = ordered_json::array();
  for (const PlacedClass& placed : placement.classes) {
    list.push_back({{"slot_bytes", placed.slot_bytes},
                    {"slots", placed.slots},
                    {"tensors", placed.tensors},
                    {"waste_bytes", placed.waste_bytes}});
  }
  return list;
}

// Names come from files: a byte that is no UTF-8 is replaced, not thrown about.
std::string text_of(const ordered_json& value, int indent = -1) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

// Nearly all names are plain, and there may be a hundred thousand.
std::string quoted(const std::string& text) {
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  return is_plain ? '"' + text + '"' : text_of(text);
}

// Those from `first` to `end`. Each becomes a line at once.
std::string tensors_text(const SwapPlan& plan, std::size_t first, std::size_t end) {
  std::string lines;
  std::string why;  // of the tensor before, quoted: most have the same
  for (std::size_t i = first; i < end; ++i) {
    const PlacedTensor& placed = plan.placement.tensors[i];
    if (i == first || placed.why != plan.placement.tensors[i - 1].why) {
      why = quoted(plan.placement.why_of(placed));
    }
    fmt::format_to(std::back_inserter(lines),
                   R"({}  {{"name": {}, "bytes": {}, "place": "{}", "class": {}, "why": {}}})",
                   i == first ? "" : ",\n", quoted(plan.tensors[i].name), plan.tensors[i].bytes,
                   place_name(placed.place),
                   placed.class_index ? fmt::to_string(*placed.class_index) : "null", why);
  }
  return lines;
}

ordered_json memory_json(const std::vector<MemoryRow>& memory) {
  ordered_json list = ordered_json::array();
  for (const MemoryRow& row : memory) {
    list.push_back({{"component", component_name(row.component)},
                    {"place", storage_name(row.storage)},
                    {"bytes_per_rank", row.bytes_per_rank}});
  }
  return list;
}

/// By value of optimizer_states; null: the step is not penstock's.
ordered_json moments_json(const SwapPlan& plan) {
  ordered_json bytes;
  for (std::size_t i = 0; i < kStateFormatNames.size(); ++i) {
    if (const std::uint64_t of = swapped_moment_bytes(plan.setup, static_cast<StateFormat>(i))) {
      bytes[std::string(kStateFormatNames[i])] = of;
    }
  }
  return bytes;
}

}  // namespace

ordered_json warnings_json(const SwapPlan& plan) {
  ordered_json list = ordered_json::array();
  for (const PlanWarning& warning : plan.warnings) {
    ordered_json entry{{"code", warning.code}};
    if (!warning.key.empty()) {
      entry["key"] = warning.key;
    }
    if (!warning.nearest.empty()) {
      entry["nearest"] = warning.nearest;
    }
    entry["text"] = warning.text;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string plan_json(const SwapPlan& plan, bool verbose) {
  const bool feasible = plan.feasibility.feasible;
  const ordered_json before{
      {"schema", "penstock.plan/1"},
      {"fits", plan.fits()},
      {"feasible", feasible},
      {"reason", feasible ? ordered_json(nullptr) : ordered_json(plan.feasibility.reason)},
      {"classes", classes_json(plan.placement)}};
  const ordered_json after{{"pinned_bytes", plan.placement.pinned_bytes},
                           {"device_pinned_bytes", plan.placement.budgets.device_bytes},
                           {"ram_bytes", plan.placement.ram_bytes},
                           {"nvme_bytes", plan.placement.nvme_bytes},
                           {"peak_live_bytes", plan.placement.peak_live_bytes},
                           {"memory", memory_json(plan.memory)},
                           {"deepspeed_bytes", or_null(plan.stock.pinned_bytes)},
                           {"deepspeed_error", or_null(plan.stock.error)},
                           {"per_step",
                            {{"read_bytes", plan.traffic.read_bytes},
                             {"write_bytes", plan.traffic.write_bytes},
                             // Needs drives that were measured.
                             {"lower_bound_seconds", or_null(plan.lower_bound_seconds)}}},
                           {"moment_bytes", moments_json(plan)},
                           {"warnings", warnings_json(plan)}};
  std::string document = text_of(before, 1);
  document.resize(document.size() - 2);  // its "\n}"
  const std::size_t listed = plan.setup.inventory.tensors.size();
  document += ",\n \"tensors\": [\n" + tensors_text(plan, 0, listed) + "\n ],";
  if (verbose) {
    const ordered_json process{
        {"planned_bytes", plan.process.planned_bytes}, {"behind_bytes", plan.process.behind_bytes},
        {"runtime_bytes", plan.process.runtime_bytes}, {"device_bytes", plan.process.device_bytes},
        {"loading_bytes", plan.process.loading_bytes}, {"peak_bytes", plan.process.peak_bytes()}};
    document += "\n \"states\": [\n" + tensors_text(plan, listed, plan.tensors.size()) + "\n ],";
    document += "\n \"process\": " + text_of(process) + ",";
  }
  return document + text_of(after, 1).substr(1) + "\n";
}

}  // namespace penstock::cli
