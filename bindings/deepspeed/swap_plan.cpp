#include "bindings/deepspeed/swap_plan.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "alloc/check.h"
#include "bindings/deepspeed/leased_memory.h"
#include "bindings/deepspeed/moment_chunks.h"
#include "bindings/deepspeed/rank_tensors.h"
#include "bindings/deepspeed/refused_settings.h"
#include "swap/plan/chunk_shape.h"

namespace penstock {
namespace {

// As the command line has it, which stands above the file.
EngineConfig engine_config(const TrainingSetup& setup) {
  Config config = setup.config;
  config.deepspeed.stage = setup.stage;
  EngineConfig engine = config.engine_config();
  engine.outliers.above_bytes = setup.buffer_bytes();
  return engine;
}

Budgets budgets_of(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                   const EngineConfig& config, const MachineFacts& machine) {
  BudgetFacts facts;
  facts.mem_available_bytes = machine.mem_available_bytes;
  facts.ranks_on_node = setup.ranks_on_node;
  facts.largest_class_slot_bytes = largest_regular_slot_bytes(tensors, config);
  Budgets budgets = resolve_budgets(config, facts);
  if (machine.stages_for_device && setup.has_config && setup.offloads_to_nvme()) {
    budgets.hold_for_devices(device_chunks(budgets.max_pinned_bytes, 1).bytes(), 1);
  }
  return budgets;
}

// With no budget to run against, only a broken invariant of ours could still refuse.
Placement place_without_limits(const SwapPlan& plan, const EngineConfig& config, Budgets budgets) {
  const std::uint64_t pinned = budgets.max_pinned_bytes;
  budgets.max_pinned_given = false;
  budgets.ram_given = false;
  budgets.quarter_bytes = std::numeric_limits<std::uint64_t>::max();
  budgets.max_pinned_bytes = std::max<std::uint64_t>(pinned, kHostChunks.bytes());
  Result<Placement> placement = place_tensors(plan.tensors, config, budgets);
  PENSTOCK_CHECK(placement.has_value(), "{}", placement.error().message);
  return std::move(*placement);
}

// False: this machine's memory leaves too little by default, and the placement is of one that has
// enough. What is refused within budgets that were given is in the plan's feasibility.
bool place(SwapPlan& plan, const EngineConfig& config, const MachineFacts& machine) {
  const Budgets budgets = budgets_of(plan.setup, plan.tensors, config, machine);
  Result<Placement> placement = place_tensors(plan.tensors, config, budgets);
  if (placement) {
    plan.placement = std::move(*placement);
    return true;
  }
  if (!budgets.max_pinned_given) {
    MachineFacts enough = machine;
    enough.mem_available_bytes = 0;  // nothing to cap by
    Result<Placement> there =
        place_tensors(plan.tensors, config, budgets_of(plan.setup, plan.tensors, config, enough));
    if (there) {
      plan.placement = std::move(*there);
      return false;
    }
  }
  plan.feasibility = infeasible(placement.error());
  plan.placement = place_without_limits(plan, config, budgets);
  return true;
}

}  // namespace

const PlanWarning* SwapPlan::misfit() const noexcept {
  const auto found = std::ranges::find_if(warnings, &PlanWarning::is_misfit);
  return found == warnings.end() ? nullptr : &*found;
}

SwapPlan make_swap_plan(TrainingSetup setup, const MachineFacts& machine) {
  SwapPlan plan;
  plan.setup = std::move(setup);
  const std::vector<MomentChunks> chunks = moment_chunks(plan.setup);
  plan.tensors = rank_tensors(plan.setup, chunks);
  const EngineConfig config = engine_config(plan.setup);
  const bool has_memory = place(plan, config, machine);
  plan.fetches = expect_fetches(plan.setup, plan.tensors, plan.placement);
  const std::uint64_t held_bytes = most_held_bytes(plan.setup, chunks, plan.fetches);
  plan.drives = expect_drive_contents(plan.setup, config, plan.tensors, plan.placement, held_bytes);
  if (plan.feasibility.feasible) {
    plan.feasibility = check_drives(plan.setup, plan.tensors, plan.drives, config.paths);
  }
  const LeasedMemory leased = expect_leased_memory(plan.tensors, plan.placement, held_bytes);
  plan.memory = make_memory_table(plan.setup, plan.tensors, plan.placement, leased);
  plan.traffic = expect_traffic(plan.tensors, plan.placement, plan.fetches.by_tensor);
  plan.process = expect_process_memory(plan.setup, plan.memory, leased, !machine.has_accelerator);
  plan.has_stated_drives = machine.drives.has_value();
  plan.lower_bound_seconds =
      machine.drives ? lower_bound_seconds(plan.traffic, *machine.drives, plan.setup.ranks_on_node)
                     : lower_bound_seconds(plan.traffic, config.paths, plan.setup.ranks_on_node);
  plan.stock = predict_stock_deepspeed(plan.setup, plan.tensors);
  plan.warnings = plan.setup.config.warnings;
  std::ranges::move(warn_about_refusals(plan.setup), std::back_inserter(plan.warnings));
  std::ranges::move(warn_about_masters(plan.setup), std::back_inserter(plan.warnings));
  std::ranges::move(warn_about_optimizer(plan.setup), std::back_inserter(plan.warnings));
  std::ranges::move(warn_about_batches(plan.setup), std::back_inserter(plan.warnings));
  std::ranges::move(warn_about_states(plan.setup), std::back_inserter(plan.warnings));
  std::ranges::copy(plan.stock.warnings, std::back_inserter(plan.warnings));
  std::ranges::move(warn_about_limits(plan.setup, plan.tensors, plan.drives, config.paths),
                    std::back_inserter(plan.warnings));
  if (!has_memory) {
    std::ranges::move(warn_about_default(machine, plan.setup, plan.placement, plan.process),
                      std::back_inserter(plan.warnings));
  }
  std::ranges::move(
      warn_about_machine(machine, plan.setup, plan.placement,
                         drive_needs_by_path(plan.setup, plan.tensors, plan.drives), plan.process),
      std::back_inserter(plan.warnings));
  return plan;
}

}  // namespace penstock
