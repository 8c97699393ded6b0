#include "cli/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bench/job/job_value.h"
#include "bindings/deepspeed/automatic_values.h"
#include "bindings/deepspeed/trained_tensors.h"
#include "bindings/inventory/recorded_trace.h"
#include "cli/inventory_source.h"
#include "cli/machine_facts.h"
#include "cli/rank_count.h"
#include "swap/update/state_chunk.h"

namespace penstock::cli {
namespace {

// A size as users write it; CLI11 turns the text into the message of a usage error.
std::string check_size(const std::string& text) {
  const Result<std::uint64_t> bytes = parse_bytes(text);
  return bytes ? std::string() : bytes.error().message;
}

std::string check_memory(const std::string& text) {
  const Result<std::uint64_t> bytes = parse_bytes(text);
  return bytes && *bytes == 0 ? "a machine has memory" : check_size(text);
}

// fp32, bf16 or fp16: what DeepSpeed trains in.
std::string check_dtype(const std::string& text) {
  const Result<DType> dtype = parse_dtype(text);
  const bool trains =
      dtype && (*dtype == DType::kF32 || *dtype == DType::kBF16 || *dtype == DType::kF16);
  return trains ? std::string() : fmt::format("{} is none of fp32, bf16 and fp16", text);
}

std::optional<DType> dtype_of(const PlanRequest& request) {
  return request.dtype.empty() ? std::nullopt : std::optional(parse_dtype(request.dtype).value());
}

// What the command line says, else what a launcher's file says of itself.
std::optional<DType> given_dtype(const PlanRequest& request,
                                 const std::optional<TypeSource>& launched) {
  const bool is_said = launched && launched->unsaid.empty();
  return request.dtype.empty() && is_said ? std::optional(launched->dtype) : dtype_of(request);
}

std::string check_adapter(const std::string& text) {
  const Result<Adapter> adapter = parse_adapter(text);
  return adapter ? std::string() : adapter.error().message;
}

std::string check_optimizer(const std::string& text) {
  const Result<OptimizerKind> kind = parse_optimizer(text);
  return kind ? std::string() : kind.error().message;
}

// Both rates, without which there is no bound. The latency is no part of it.
Result<DriveSpeeds> parse_drive(const std::string& text) {
  bench::SimulatedDrive drive;
  bench::Refusal refusal = bench::read_drive(text, drive);
  if (!refusal && drive.real_time) {
    refusal = "clock=real is for runs, not for plans";
  }
  if (!refusal && (drive.read_bytes_per_second == 0 || drive.write_bytes_per_second == 0)) {
    refusal = "both read= and write= are needed, such as read=3.5g,write=3g";
  }
  if (refusal) {
    return fault(Fault::kInvalidArgument, fmt::format("\"{}\": {}", excerpt(text), *refusal));
  }
  return DriveSpeeds{static_cast<double>(drive.read_bytes_per_second),
                     static_cast<double>(drive.write_bytes_per_second)};
}

std::string check_drive(const std::string& text) {
  const Result<DriveSpeeds> speeds = parse_drive(text);
  return speeds ? std::string() : speeds.error().message;
}

// Nothing where the option was not given; its text has been checked.
std::optional<std::uint64_t> size_of(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(parse_bytes(text).value());
}

void override_from_command_line(const PlanRequest& request, Config& config) {
  if (const auto pinned = size_of(request.max_pinned)) {
    config.penstock.max_pinned_bytes = pinned;
    config.origins["penstock.max_pinned_bytes"] = "--max-pinned";
  }
  if (const auto ram = size_of(request.ram)) {
    config.penstock.ram_bytes = ram;
    config.origins["penstock.ram_bytes"] = "--ram";
  }
  if (request.stage) {
    config.deepspeed.stage = *request.stage;
    config.origins["zero_optimization.stage"] = "--stage";
  }
}

// What the trace has of tensors, in order of use.
Result<std::optional<Inventory>> read_traced(const PlanRequest& request) {
  if (request.trace.empty()) {
    return std::optional<Inventory>();
  }
  Result<RecordedTrace> trace = load_trace(request.trace);
  PENSTOCK_TRY(trace);
  return std::optional(traced_inventory(*trace));
}

// Without an inventory the trace is one.
Result<InventorySource> read_tensors(const PlanRequest& request,
                                     const std::optional<Inventory>& traced) {
  if (traced && request.inventories.empty()) {
    return InventorySource{*traced, {}};
  }
  return read_inventories(request.inventories);
}

// Ranks in all, and on one machine.
struct Ranks {
  std::uint32_t world_size = 1;
  std::uint32_t on_node = 1;
};

// A machine has no more ranks than there are in all.
Result<void> check_ranks(const Ranks& ranks, bool is_given, bool is_launched) {
  if (ranks.on_node <= ranks.world_size) {
    return {};
  }
  return fault(
      Fault::kInvalidArgument,
      fmt::format("--ranks-per-node is {} and {}{}; a machine has no more ranks than there "
                  "are in all",
                  ranks.on_node,
                  is_given      ? "--world-size is "
                  : is_launched ? "--world-size is not given, and accelerate's "
                                  "num_processes is "
                                : "--world-size is not given, which means ",
                  ranks.world_size));
}

// As many as there are on each of accelerate's machines, where that divides the given ranks.
std::uint32_t ranks_of_machine(const ConfigSource& source, std::uint32_t world_size) {
  const std::uint32_t machines = source.accelerate ? source.accelerate->num_machines : 1;
  return world_size % machines == 0 ? world_size / machines : world_size;
}

// Those of the command line, else those that accelerate launches, which a warning says.
Result<Ranks> ranks_of(const PlanRequest& request, const ConfigSource& source, Config& config) {
  const AccelerateConfig* const launched =
      source.accelerate && source.accelerate->num_processes && !request.world_size
          ? &*source.accelerate
          : nullptr;
  Ranks ranks;
  ranks.world_size = request.world_size.value_or(1);
  ranks.on_node = request.world_size ? ranks_of_machine(source, ranks.world_size) : 1;
  if (launched != nullptr) {
    // As many on each machine: of five processes on two machines it launches four.
    const std::uint32_t processes = *launched->num_processes;
    const std::uint32_t machines = std::min(launched->num_machines, processes);
    ranks.on_node = processes / machines;
    ranks.world_size = ranks.on_node * machines;
  }
  ranks.on_node = request.ranks_per_node.value_or(ranks.on_node);
  PENSTOCK_TRY(check_ranks(ranks, request.world_size.has_value(), launched != nullptr));
  if (launched != nullptr && ranks.world_size > 1) {
    config.warnings.push_back(
        {"assumed",
         fmt::format("--world-size is not given; planned with {} ranks, {} on a machine, as "
                     "accelerate launches",
                     ranks.world_size, ranks.on_node),
         "num_processes"});
  } else if (!request.ranks_per_node && ranks.on_node < ranks.world_size) {
    config.warnings.push_back(
        {"assumed",
         fmt::format("--ranks-per-node is not given; planned with {} on a machine, as accelerate's "
                     "num_machines says",
                     ranks.on_node),
         "num_machines"});
  }
  return ranks;
}

// This one, but for what the user says of another. That has an accelerator unless DS_ACCELERATOR,
// which a run there would have too, names the CPU.
MachineFacts machine_of(const PlanRequest& request, const std::vector<PathConfig>& paths) {
  MachineFacts machine = read_machine_facts(paths);
  if (const auto given = size_of(request.memory)) {
    machine.mem_available_bytes = *given;
    machine.is_elsewhere = true;
    if (std::getenv("DS_ACCELERATOR") == nullptr) {
      machine.has_accelerator = true;
      machine.stages_for_device |= std::getenv("PENSTOCK_DEVICE") == nullptr;
    }
  }
  if (!request.drive.empty()) {
    machine.drives = parse_drive(request.drive).value();  // checked by check_drive()
  }
  return machine;
}

std::vector<std::string> adapter_names(const PlanRequest& request) {
  std::vector<std::string> names;
  for (const std::string& text : request.adapters) {
    names.push_back(parse_adapter(text).value().tensor.name);  // checked by check_adapter()
  }
  return names;
}

// Their names where a type was given.
Result<std::set<std::string>> add_adapters(const PlanRequest& request, Inventory& inventory) {
  std::set<std::string> typed;
  for (const std::string& text : request.adapters) {
    const Adapter adapter = parse_adapter(text).value();  // checked by check_adapter()
    Result<std::vector<std::string>> names = add_adapter(inventory, adapter.tensor);
    PENSTOCK_TRY(names);
    if (adapter.has_type) {
      typed.insert(names->begin(), names->end());
    }
  }
  return typed;
}

TrainingSetup make_setup(const PlanRequest& request, Ranks ranks, Inventory inventory,
                         Config config) {
  TrainingSetup setup;
  setup.inventory = std::move(inventory);
  setup.has_config = config.deepspeed.is_given;
  setup.stage = request.stage.value_or(setup.has_config ? config.deepspeed.stage : 3);
  setup.world_size = ranks.world_size;
  setup.ranks_on_node = ranks.on_node;
  setup.optimizer = request.optimizer.empty() ? optimizer_of_type(config.deepspeed.optimizer_type)
                                              : parse_optimizer(request.optimizer).value();
  setup.optimizer_is_given = !request.optimizer.empty();
  setup.trained_is_given = !request.trainable.empty() || !request.adapters.empty();
  setup.generates = request.generation;
  setup.activation_bytes = size_of(request.activations).value_or(0);
  setup.config = std::move(config);
  return setup;
}

// A plan lists each chunk of the optimizer's states. 1e12 parameters make three million; beyond
// four the plan alone takes gigabytes.
constexpr std::uint64_t kChunksMax = 4'000'000;

Result<void> check_chunks(const TrainingSetup& setup) {
  if (!setup.steps_in_chunks()) {
    return {};
  }
  std::uint64_t elements = 0;
  for (const SubGroup& group : setup.sub_groups()) {
    elements += group.elements;
  }
  const std::uint64_t states = setup.optimizer_states().size() + 1;
  if (elements / kStateChunkElements > kChunksMax / states) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("a rank's optimizer steps {} elements, more than the {} that a plan "
                             "of its chunks can list; are the shapes and --world-size right?",
                             elements, kChunksMax / states * kStateChunkElements));
  }
  return {};
}

}  // namespace

std::string PlanRequest::config_path() const {
  const char* from_environment = std::getenv("PENSTOCK_CONFIG");
  return config.empty() && from_environment != nullptr ? from_environment : config;
}

Result<Config> PlanRequest::read_config(const ConfigSource& source) const {
  Result<Config> read = source.parse();
  if (read) {
    override_from_command_line(*this, *read);
  }
  return read;
}

Result<SwapPlan> PlanRequest::make_plan(Config planned, const ConfigSource& source) const {
  const Result<std::optional<Inventory>> traced = read_traced(*this);
  PENSTOCK_TRY(traced);
  Result<InventorySource> tensors = read_tensors(*this, *traced);
  PENSTOCK_TRY(tensors);
  Inventory& inventory = tensors->inventory;
  std::ranges::move(tensors->warnings, std::back_inserter(planned.warnings));
  PENSTOCK_TRY(choose_trained(inventory, trainable, adapter_names(*this)));
  Result<std::set<std::string>> typed = add_adapters(*this, inventory);
  PENSTOCK_TRY(typed);
  const std::optional<TypeSource> launched =
      source.accelerate ? source.accelerate->type : std::nullopt;
  if (const Result<void> settled =
          settle_automatic_values(planned, inventory, dtype_of(*this), launched);
      !settled) {
    return settled.error();
  }
  const Result<Ranks> ranks = ranks_of(*this, source, planned);
  PENSTOCK_TRY(ranks);
  const MachineFacts machine = machine_of(*this, planned.paths());
  TrainingSetup setup = make_setup(*this, *ranks, std::move(inventory), std::move(planned));
  setup.given_dtype = given_dtype(*this, launched);
  if (*traced) {
    setup.use_order = order_of_use(setup.inventory, **traced);
  }
  setup.typed_tensors = std::move(*typed);
  PENSTOCK_TRY(check_chunks(setup));
  return make_swap_plan(std::move(setup), machine);
}

void add_job_options(CLI::App& verb, PlanRequest& request) {
  verb.add_option("INVENTORY", request.inventories,
                  "A .safetensors file, a .safetensors.index.json, a directory with either, the "
                  "name of a model in Hugging Face's cache, a checkpoint of DeepSpeed, or a JSON "
                  "inventory (python -m penstock.inventory writes one)");
  verb.add_option("--config", request.config,
                  "DeepSpeed's configuration, as it is, or the .yaml of `accelerate launch` "
                  "(default: $PENSTOCK_CONFIG)")
      ->type_name("DS.json");
  verb.add_option("--world-size", request.world_size,
                  "Ranks that share the model (default: accelerate's num_processes, or 1)")
      ->check(CLI::Range(std::uint32_t{1}, kRanksMax))
      ->type_name("N");
  verb.add_option(
          "--ranks-per-node", request.ranks_per_node,
          "Ranks that share a machine's memory and drives (default: all on as many machines "
          "as accelerate's num_machines, or one)")
      ->check(CLI::Range(std::uint32_t{1}, kRanksMax))
      ->type_name("N");
  verb.add_option("--stage", request.stage, "Stage of ZeRO (default: the configuration's, or 3)")
      ->check(CLI::IsMember({2, 3}))
      ->type_name("2|3");
  verb.add_option(
          "--optimizer", request.optimizer,
          "adamw, adamw8bit, adamw4bit or none: what is remembered per parameter (default: "
          "by the configuration's optimizer.type, else adamw; none for a frozen model, such "
          "as the base of LoRA)")
      ->check(check_optimizer)
      ->type_name("NAME");
  verb.add_option("--dtype", request.dtype,
                  "fp32, bf16 or fp16: what \"auto\" stands for in the configuration, and the type "
                  "where there is none (default: accelerate's mixed_precision, else the "
                  "inventory's own type)")
      ->check(check_dtype)
      ->type_name("NAME");
  verb.add_option("--trainable", request.trainable,
                  "Parameters that are trained, by a pattern over their names (*.lora_*), all or "
                  "none; may be given several times (default: all)")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  verb.add_option("--adapter", request.adapters,
                  "Trained tensors that the inventory lacks, such as "
                  "model.layers.*.mlp.up_proj.lora_A=8x1024; * makes one for each layer; of DTYPE "
                  "(PEFT makes adapters of fp32, unless autocast_adapter_dtype is False) or the "
                  "model's type; may be given several times")
      ->check(check_adapter)
      ->allow_extra_args(false)
      ->type_name("NAME=ROWSxCOLS[:DTYPE]");
  verb.add_flag("--generation", request.generation,
                "The trainer gathers all parameters to generate, as TRL's GRPO does in each step");
  verb.add_option(
          "--trace", request.trace,
          "A recorded trace (PENSTOCK_TRACE): the order of use; without INVENTORY its tensors")
      ->type_name("FILE");
  verb.add_option("--activations", request.activations, "Bytes of activations on a rank")
      ->check(check_size)
      ->type_name("SIZE");
}

void add_budget_options(CLI::App& verb, PlanRequest& request) {
  verb.add_option("--max-pinned", request.max_pinned,
                  "Bytes that a rank may pin (penstock.max_pinned_bytes)")
      ->check(check_size)
      ->type_name("SIZE");
  verb.add_option("--ram", request.ram, "Bytes that a rank may keep in RAM (penstock.ram_bytes)")
      ->check(check_size)
      ->type_name("SIZE");
  verb.add_option("--memory", request.memory,
                  "Plan for a machine with so much memory available (default: this one's)")
      ->check(check_memory)
      ->type_name("SIZE");
}

void add_drive_option(CLI::App& verb, PlanRequest& request) {
  verb.add_option("--drive", request.drive,
                  "read=3.5g,write=3g,latency=80us: what the drives of a machine do together, for "
                  "the least time of a step (default: what penstock.paths were measured with)")
      ->check(check_drive)
      ->type_name("RATES");
}

}  // namespace penstock::cli
