#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bindings/cli/configuration_listing.h"
#include "bindings/cli/emitted_config.h"
#include "bindings/cli/machine_facts.h"
#include "bindings/cli/plan_json.h"
#include "bindings/cli/plan_text.h"
#include "bindings/cli/verb.h"
#include "swap/plan/input_file.h"
#include "swap/plan/recorded_trace.h"
#include "swap/plan/swap_plan.h"

namespace penstock::cli {
namespace {

// More ranks than any machine room has; keeps products of ranks and bytes within 64 bits.
constexpr std::uint32_t kRanksMax = 1'000'000;

struct PlanOptions {
  std::vector<std::string> inventories;
  std::string trace;
  std::string config;
  std::uint32_t world_size = 1;
  std::optional<std::uint32_t> ranks_per_node;
  std::optional<std::uint32_t> stage;
  std::string optimizer;
  std::string activations;
  std::string max_pinned;
  std::string ram;
  std::string memory;
  bool as_json = false;
  bool emit_config = false;
  bool show_config = false;
};

// A size as users write it; CLI11 turns the text into the message of a usage error.
std::string check_size(const std::string& text) {
  const Result<std::uint64_t> bytes = parse_bytes(text);
  return bytes ? std::string() : bytes.error().message;
}

std::string check_optimizer(const std::string& text) {
  const Result<OptimizerKind> kind = parse_optimizer(text);
  return kind ? std::string() : kind.error().message;
}

// Nothing where the option was not given; its text has been checked.
std::optional<std::uint64_t> size_of(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(parse_bytes(text).value());
}

void override_from_command_line(const PlanOptions& options, Config& config) {
  if (const auto pinned = size_of(options.max_pinned)) {
    config.penstock.max_pinned_bytes = pinned;
    config.origins["penstock.max_pinned_bytes"] = "--max-pinned";
  }
  if (const auto ram = size_of(options.ram)) {
    config.penstock.ram_bytes = ram;
    config.origins["penstock.ram_bytes"] = "--ram";
  }
  if (options.stage) {
    config.deepspeed.stage = *options.stage;
    config.origins["zero_optimization.stage"] = "--stage";
  }
}

// --config, else PENSTOCK_CONFIG, else none.
std::string config_path(const PlanOptions& options) {
  const char* from_environment = std::getenv("PENSTOCK_CONFIG");
  return options.config.empty() && from_environment != nullptr ? from_environment : options.config;
}

Result<Config> read_config(const PlanOptions& options) {
  const std::string path = config_path(options);
  Result<Config> config = path.empty() ? parse_config("{}", "no file") : load_config(path);
  if (config) {
    override_from_command_line(options, *config);
  }
  return config;
}

Result<Inventory> read_inventories(const std::vector<std::string>& paths) {
  Inventory all;
  std::unordered_map<std::string, std::string> found_in;
  for (const std::string& path : paths) {
    Result<Inventory> part = load_inventory(path);
    if (!part) {
      return part;
    }
    for (TensorInfo& tensor : part->tensors) {
      if (paths.size() > 1) {
        const auto [at, is_new] = found_in.emplace(tensor.name, path);
        if (!is_new) {
          return fault(Fault::kInvalidArgument, fmt::format("the tensor {} is in {} and in {}",
                                                            tensor.name, at->second, path));
        }
      }
      all.tensors.push_back(std::move(tensor));
    }
  }
  return all;
}

// What is known of the order of use puts the tensors in it; without an inventory the trace is one.
Result<Inventory> read_tensors(const PlanOptions& options) {
  if (options.trace.empty()) {
    return read_inventories(options.inventories);
  }
  Result<RecordedTrace> trace = load_trace(options.trace);
  if (!trace) {
    return trace.error();
  }
  Inventory traced = traced_inventory(*trace);
  if (options.inventories.empty()) {
    return traced;
  }
  Result<Inventory> inventory = read_inventories(options.inventories);
  if (inventory) {
    sort_by_use(*inventory, traced);
  }
  return inventory;
}

TrainingSetup make_setup(const PlanOptions& options, Inventory inventory, Config config) {
  TrainingSetup setup;
  setup.inventory = std::move(inventory);
  setup.has_config = config.deepspeed.is_given;
  setup.stage = options.stage.value_or(setup.has_config ? config.deepspeed.stage : 3);
  setup.world_size = options.world_size;
  setup.ranks_on_node = options.ranks_per_node.value_or(options.world_size);
  setup.optimizer = options.optimizer.empty() ? optimizer_of_type(config.deepspeed.optimizer_type)
                                              : parse_optimizer(options.optimizer).value();
  setup.activation_bytes = size_of(options.activations).value_or(0);
  setup.config = std::move(config);
  return setup;
}

int report(const Error& error) {
  report_error(error.message);
  return kFailed;
}

int print_emitted(const PlanOptions& options, const SwapPlan& plan) {
  Result<std::string> emitted = emit_config(plan, config_path(options));
  if (!emitted) {
    return report(emitted.error());
  }
  fmt::print("{}", *emitted);
  return kDone;
}

int run_plan(const PlanOptions& options) {
  Result<Config> config = read_config(options);
  if (!config) {
    return report(config.error());
  }
  if (options.show_config) {
    fmt::print("{}", options.as_json ? configuration_json(*config) : configuration_text(*config));
    return kDone;
  }
  Result<Inventory> inventory = read_tensors(options);
  if (!inventory) {
    return report(inventory.error());
  }
  MachineFacts machine = read_machine_facts(config->paths());
  if (const auto memory = size_of(options.memory)) {
    machine.mem_available_bytes = *memory;
  }
  const SwapPlan plan =
      make_swap_plan(make_setup(options, std::move(*inventory), std::move(*config)), machine);
  int exit_code = plan.feasibility.feasible ? kDone : kFailed;
  if (options.emit_config) {
    exit_code = plan.feasibility.feasible ? print_emitted(options, plan) : kFailed;
  } else {
    fmt::print("{}", options.as_json ? plan_json(plan) : plan_text(plan));
  }
  if (!plan.feasibility.feasible) {
    report_error("the plan is not feasible: " + plan.feasibility.reason);
  }
  return exit_code;
}

void add_job_options(CLI::App& verb, PlanOptions& options) {
  verb.add_option("INVENTORY", options.inventories,
                  "A .safetensors file, a .safetensors.index.json, a directory with either, or a "
                  "JSON inventory (python -m penstock.inventory writes one)");
  verb.add_option("--config", options.config,
                  "DeepSpeed's configuration, as it is (default: $PENSTOCK_CONFIG)")
      ->type_name("DS.json");
  verb.add_option("--world-size", options.world_size, "Ranks that share the model (default: 1)")
      ->check(CLI::Range(std::uint32_t{1}, kRanksMax))
      ->type_name("N");
  verb.add_option("--ranks-per-node", options.ranks_per_node,
                  "Ranks that share a machine's memory and drives (default: all)")
      ->check(CLI::Range(std::uint32_t{1}, kRanksMax))
      ->type_name("N");
  verb.add_option("--stage", options.stage, "Stage of ZeRO (default: the configuration's, or 3)")
      ->check(CLI::IsMember({2, 3}))
      ->type_name("2|3");
  verb.add_option(
          "--optimizer", options.optimizer,
          "adamw, adamw8bit, adamw4bit or none: what is remembered per parameter (default: "
          "by the configuration's optimizer.type, else adamw; none for a frozen model, such "
          "as the base of LoRA)")
      ->check(check_optimizer)
      ->type_name("NAME");
  verb.add_option(
          "--trace", options.trace,
          "A recorded trace (PENSTOCK_TRACE): the order of use; without INVENTORY its tensors")
      ->type_name("FILE");
  verb.add_option("--activations", options.activations, "Bytes of activations on a rank")
      ->check(check_size)
      ->type_name("SIZE");
}

void add_budget_options(CLI::App& verb, PlanOptions& options) {
  verb.add_option("--max-pinned", options.max_pinned,
                  "Bytes that a rank may pin (penstock.max_pinned_bytes)")
      ->check(check_size)
      ->type_name("SIZE");
  verb.add_option("--ram", options.ram, "Bytes that a rank may keep in RAM (penstock.ram_bytes)")
      ->check(check_size)
      ->type_name("SIZE");
  verb.add_option("--memory", options.memory,
                  "Plan for a machine with so much memory available (default: this one's)")
      ->check(check_size)
      ->type_name("SIZE");
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "plan",
      "What becomes of every tensor of a model, and what memory that takes, before training");
  verb->footer(
      "Sizes are 4194304, 4k, 64MiB, 1g (units of 1024) or 64MB, 1GB (units of 1000).\n"
      "Exit status 1 if the plan is not feasible within the budgets given.\n"
      "Examples:\n"
      "  penstock plan model.safetensors --config ds_config.json\n"
      "  penstock plan qwen3-30b-a3b.json --world-size 8 --stage 2 --activations 20GB\n"
      "  penstock plan model/ --config ds_config.json --emit-config > better.json");
  const auto options = std::make_shared<PlanOptions>();
  add_job_options(*verb, *options);
  add_budget_options(*verb, *options);
  verb->add_flag("--json", options->as_json, "One JSON document (penstock.plan/1)");
  CLI::Option* emit = verb->add_flag(
      "--emit-config", options->emit_config,
      "Print the configuration with good buffer_count and buffer_size and the penstock block");
  verb->add_flag("--show-config", options->show_config, "Print every value read and its origin")
      ->excludes(emit);
  verb->callback([options, &exit_code] {
    if (options->inventories.empty() && options->trace.empty() && !options->show_config) {
      throw CLI::RequiredError("INVENTORY");
    }
    exit_code = run_plan(*options);
  });
}

}  // namespace penstock::cli
