#include "cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "bindings/deepspeed/moment_chunks.h"
#include "bindings/inventory/json_document.h"
#include "cli/memory_formula.h"
#include "cli/printable.h"
#include "cli/text_table.h"
#include "swap/plan/saturating.h"

namespace penstock::cli {
namespace {

// So many outliers are named; of more than these, how many there are.
constexpr std::size_t kNamedMax = 4;
// What makers of SSDs count writes in, and what a step's writes come to in a run of this length.
constexpr std::uint64_t kWearSteps = 1000;

std::string exact(std::uint64_t bytes) {
  return fmt::format("{} bytes ({})", bytes, format_bytes(bytes));
}

std::string heading(std::string_view title) {
  return fmt::format("\n{}\n", title);
}

std::string what_was_asked(const SwapPlan& plan) {
  const TrainingSetup& setup = plan.setup;
  std::uint64_t rank_bytes = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    rank_bytes += setup.rank_bytes(info);
  }
  const std::optional<DType> held = setup.model_dtype();
  const std::string dtype = fmt::format(
      "{}{}",
      held ? fmt::format("parameters held as {}", dtype_name(*held)) : "types as in the inventory",
      setup.has_config ? " by the configuration" : ", no DeepSpeed configuration");
  return fmt::format(
      "{}, {} elements, {} on a rank; world size {}, ZeRO stage {}, optimizer {}; {}\n",
      counted(setup.inventory.tensors.size(), "tensor"), setup.inventory.elements(),
      exact(rank_bytes), setup.world_size, setup.stage, optimizer_name(setup.optimizer), dtype);
}

std::string origin(const Config& config, const char* key, std::string by_default) {
  const auto found = config.origins.find(key);
  return found == config.origins.end() ? by_default : found->second;
}

std::uint64_t pinned_bytes(const SwapPlan& plan) {
  return plan.placement.pinned_bytes + plan.placement.budgets.device_bytes;
}

std::string budgets_text(const SwapPlan& plan) {
  const Budgets& budgets = plan.placement.budgets;
  std::string text = heading("Budgets of a rank");
  text += fmt::format("  max_pinned_bytes  {}, {}\n", exact(budgets.written_pinned_bytes()),
                      origin(plan.setup.config, "penstock.max_pinned_bytes",
                             "default: 64 MiB or two slots of the largest class, at most a quarter "
                             "of the memory available"));
  if (budgets.device_bytes != 0) {
    text += fmt::format("    of them         {}, what goes to and from the device passes through\n",
                        exact(budgets.device_bytes));
  }
  const std::string ram_default =
      budgets.memory_bytes == 0
          ? std::string("default: the file lets DeepSpeed pin nothing for parameters")
          : fmt::format(
                "default: what the file lets DeepSpeed pin ({}, at most a quarter of the "
                "memory available) less max_pinned_bytes",
                format_bytes(budgets.memory_bytes));
  text += fmt::format("  ram_bytes         {}, {}\n", exact(budgets.ram_bytes),
                      origin(plan.setup.config, "penstock.ram_bytes", ram_default));
  return text;
}

std::string classes_text(const Placement& placement) {
  std::string text = heading("Size classes in pinned memory");
  if (placement.classes.empty()) {
    return text + "  none: nothing of regular size comes from a drive through pinned memory\n";
  }
  TextTable table({{"slot bytes", Align::kRight},
                   {"", Align::kRight},
                   {"slots", Align::kRight},
                   {"tensors", Align::kRight},
                   {"waste bytes", Align::kRight},
                   {"why so many"}});
  for (const PlacedClass& placed : placement.classes) {
    table.add({fmt::to_string(placed.slot_bytes), format_bytes(placed.slot_bytes),
               fmt::to_string(placed.slots), fmt::to_string(placed.tensors),
               fmt::to_string(placed.waste_bytes), placed.why});
  }
  return text + table.text();
}

// What the tensors with one fate for one reason have in common.
struct Fate {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> names;  // the first few
};

// What rank_tensors() has appended behind the inventory.
std::string optimizer_text(const SwapPlan& plan) {
  Fate kept;
  Fate streamed;
  for (std::size_t i = plan.setup.inventory.tensors.size(); i < plan.tensors.size(); ++i) {
    Fate& fate = plan.placement.tensors[i].place == Place::kRam ? kept : streamed;
    ++fate.tensors;
    fate.bytes += plan.tensors[i].bytes;
  }
  if (kept.tensors + streamed.tensors == 0) {
    return {};
  }
  return fmt::format(
      "  optimizer  {} {} of {} sub-groups: {} ({}) on the drive, read for the step and written "
      "back; {} ({}) in RAM\n",
      kept.tensors + streamed.tensors, plan.setup.steps_in_chunks() ? "chunks of states" : "states",
      plan.setup.sub_groups().size(), streamed.tensors, format_bytes(streamed.bytes), kept.tensors,
      format_bytes(kept.bytes));
}

// What each value of optimizer_states makes of the moments on the drive.
std::string states_text(const SwapPlan& plan) {
  const std::size_t chosen = static_cast<std::size_t>(plan.setup.state_formats().narrow);
  std::string text;
  for (std::size_t i = 0; i < kStateFormatNames.size(); ++i) {
    const std::uint64_t bytes = swapped_moment_bytes(plan.setup, static_cast<StateFormat>(i));
    if (bytes == 0) {
      return {};
    }
    text += fmt::format("{}{} {}{}", i == 0 ? "" : ", ", kStateFormatNames[i], format_bytes(bytes),
                        i == chosen ? " (chosen)" : "");
  }
  return fmt::format("             moments by optimizer_states: {}; read and written each step\n",
                     text);
}

std::string fates_text(const SwapPlan& plan) {
  std::map<std::pair<Place, std::string>, Fate> fates;
  const std::size_t listed = plan.setup.inventory.tensors.size();
  for (std::size_t i = 0; i < listed; ++i) {
    const PlacedTensor& placed = plan.placement.tensors[i];
    Fate& fate =
        fates[{placed.place, placed.place == Place::kClass ? "" : plan.placement.why_of(placed)}];
    ++fate.tensors;
    fate.bytes += plan.tensors[i].bytes;
    if (fate.names.size() < kNamedMax) {
      fate.names.push_back(excerpt(plan.tensors[i].name));
    }
  }
  std::string text = heading("What becomes of the tensors");
  for (const auto& [key, fate] : fates) {
    const auto& [place, why] = key;
    text += fmt::format("  {:<10} {}, {}", place_name(place), counted(fate.tensors, "tensor"),
                        format_bytes(fate.bytes));
    if (place == Place::kClass) {
      text += ": on the drive; read into a slot of their class before use\n";
    } else {
      const bool all_named = fate.names.size() == fate.tensors;
      text += fmt::format(": {}\n             {}{}\n", printable(why), fmt::join(fate.names, ", "),
                          all_named ? "" : ", ...");
    }
  }
  return text + optimizer_text(plan) + states_text(plan);
}

std::string stock_text(const SwapPlan& plan) {
  const StockDeepSpeed& stock = plan.stock;
  std::string text = heading("Stock DeepSpeed 0.19.8 with the same file");
  if (!plan.setup.has_config) {
    return text + "  not known: no configuration was given (--config)\n";
  }
  if (!stock.pinned_bytes && stock.optimizer_pinned_bytes == 0) {
    return text + "  swaps nothing to NVMe\n";
  }
  if (stock.error) {
    text +=
        fmt::format("  dies while it builds the model:\n    AssertionError: {}\n", *stock.error);
  } else {
    text += "  builds the model\n";
  }
  if (stock.pinned_bytes) {
    const OffloadConfig& offload = *plan.setup.config.deepspeed.offload_param;
    text += fmt::format(
        "  pins {} for parameters: {} buffers of {} elements, each as large as the "
        "largest tensor has to be\n",
        exact(*stock.pinned_bytes), offload.buffer_count, offload.buffer_size);
  }
  if (stock.optimizer_pinned_bytes != 0) {
    text += fmt::format("  pins {} for the optimizer: {} buffers of the largest sub-group\n",
                        exact(stock.optimizer_pinned_bytes),
                        plan.setup.config.deepspeed.offload_optimizer->buffer_count);
  }
  return text + fmt::format("  penstock pins {} at most\n", exact(pinned_bytes(plan)));
}

std::string memory_text(const SwapPlan& plan) {
  TextTable table({{"component"},
                   {"place"},
                   {"bytes of a rank", Align::kRight},
                   {"", Align::kRight},
                   {"how that comes about"}});
  for (const MemoryRow& row : plan.memory) {
    table.add({std::string(component_name(row.component)), std::string(storage_name(row.storage)),
               fmt::to_string(row.bytes_per_rank), format_bytes(row.bytes_per_rank),
               memory_formula(plan, row)});
  }
  std::string text = heading("Memory of a rank") + table.text();
  std::string totals;
  for (const Storage storage :
       {Storage::kDevice, Storage::kRam, Storage::kPinned, Storage::kNvme}) {
    totals += fmt::format("{}{} {}", totals.empty() ? "" : ", ", storage_name(storage),
                          format_bytes(bytes_in(plan.memory, storage)));
  }
  return text + "  in all: " + totals + "\n";
}

std::string step_text(const SwapPlan& plan) {
  const StepTraffic& traffic = plan.traffic;
  std::string text = heading("Each step of a rank");
  text +=
      fmt::format("  reads {}, writes {}\n", exact(traffic.read_bytes), exact(traffic.write_bytes));
  if (traffic.write_bytes != 0) {
    text += fmt::format("  wear of the SSD: {} steps of the machine's {} rank(s) write {}\n",
                        kWearSteps, plan.setup.ranks_on_node,
                        format_bytes(multiply_saturating(traffic.write_bytes,
                                                         plan.setup.ranks_on_node * kWearSteps)));
  }
  return text + (plan.lower_bound_seconds
                     ? fmt::format("  time: {:.3g} s at least, at the speeds {}\n",
                                   *plan.lower_bound_seconds,
                                   plan.has_stated_drives ? "that --drive says"
                                                          : "that the paths were measured with")
                     : std::string("  time: not known without a measured drive (penstock tune, or "
                                   "--drive)\n"));
}

std::string pinned_text(const SwapPlan& plan) {
  if (!plan.feasibility.feasible) {
    return {};
  }
  return heading("Pinned memory") + fmt::format(
                                        "  Peak {} of {} allowed, of which tensors fill {}.\n"
                                        "  Free of deadlock: only a slot that I/O in flight gives "
                                        "back is waited for; a lease beyond "
                                        "the "
                                        "slots\n  takes pageable memory at once.\n",
                                        exact(pinned_bytes(plan)),
                                        format_bytes(plan.placement.budgets.written_pinned_bytes()),
                                        format_bytes(plan.placement.peak_live_bytes));
}

}  // namespace

std::string warnings_text(const SwapPlan& plan) {
  if (plan.warnings.empty()) {
    return {};
  }
  std::string text = heading("To look out for");
  for (const PlanWarning& warning : plan.warnings) {
    text += fmt::format("  - {}\n", printable(warning.text));
  }
  return text;
}

std::string plan_text(const SwapPlan& plan) {
  return what_was_asked(plan) + budgets_text(plan) + classes_text(plan.placement) +
         fates_text(plan) + stock_text(plan) + memory_text(plan) + step_text(plan) +
         pinned_text(plan) + warnings_text(plan);
}

}  // namespace penstock::cli
