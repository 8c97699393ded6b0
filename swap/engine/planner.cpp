#include "swap/engine/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <string>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "swap/engine/ticket_state.h"
#include "swap/log.h"
#include "swap/plan/pinned_need.h"

namespace penstock {
namespace {

/// What the pool is shaped to: classes, buffers of single tensors, and where anything lies on a
/// drive the chunks of transfers. `sizes` are the tensors', as they were placed.
std::vector<ClassPlan> pool_classes(const Placement& placement,
                                    const std::vector<std::uint64_t>& sizes) {
  std::vector<ClassPlan> classes = placement.pool();
  if (placement.staging_bytes > 0) {
    classes.push_back({kHostChunks.chunk_bytes, kHostChunks.chunks});
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (placement.tensors[i].place == Place::kDedicated) {
      classes.push_back({sizes[i], 1});
    }
  }
  return classes;
}

}  // namespace

Budgets Planner::open() {
  const SwapEngineOptions& options = context_.options;
  facts_ = {options.mem_available_bytes.value_or(read_mem_available_bytes()), options.ranks_on_node,
            0};
  if (facts_.mem_available_bytes != 0) {
    // What it holds already may make room: a model whose tensors are put.
    reachable_bytes_ =
        facts_.mem_available_bytes / std::max(facts_.ranks_on_node, 1U) + read_resident_bytes();
  }
  return options.budgets.value_or(resolve_budgets(options.config, facts_));
}

Placement Planner::placement() const {
  const BriefLock lock(context_);
  return placement_;
}

Result<void> Planner::plan() {
  std::vector<ClassPlan> classes;
  {
    Locked locked(context_);
    if (context_.closed) {
      return context_.not_open();
    }
    Result<std::vector<ClassPlan>> planned = plan_locked(locked);
    PENSTOCK_TRY(planned);
    classes = std::move(*planned);
  }
  shape_pool(classes, IfShaped::kWait);
  warn_beyond_memory();
  return {};
}

void Planner::warn_beyond_memory() {
  const BriefLock lock(context_);
  if (placement_.ram_bytes + placement_.pinned_bytes <= reachable_bytes_ ||
      std::exchange(beyond_memory_, true)) {
    return;
  }
  context_.warn(
      WarningCode::kBeyondMemory,
      fmt::format("{} of tensors are to stay in RAM and {} are pinned, but this process can have "
                  "{} of memory at most; lower ram_bytes (now {}), or the kernel may kill it",
                  format_bytes(placement_.ram_bytes), format_bytes(placement_.pinned_bytes),
                  format_bytes(reachable_bytes_), format_bytes(placement_.budgets.ram_bytes)));
}

Result<void> Planner::plan_before_use(TensorId tensor) {
  if (memory_.planned()) {
    return {};
  }
  std::vector<ClassPlan> classes;
  {
    Locked locked(context_);
    if (memory_.planned() || context_.closed || table_.record_of(tensor) == nullptr) {
      return {};  // another thread was first; or the use says so
    }
    Result<std::vector<ClassPlan>> planned = plan_locked(locked);
    PENSTOCK_TRY(planned);
    classes = std::move(*planned);
  }
  // A callback's thread may be the I/O thread, for which a thread that shapes the pool now waits to
  // pin memory. That thread's plan is newer: before this one there was none.
  shape_pool(classes, TicketState::in_callback() ? IfShaped::kLeave : IfShaped::kWait);
  warn_beyond_memory();
  return {};
}

/// What the pool is to be shaped to. Begins the operation that keeps the pool until then.
Result<std::vector<ClassPlan>> Planner::plan_locked(Locked& locked) {
  const std::vector<TensorId> ids = planned_ids();
  Result<Placement> placement = compute(plan_tensors(ids));
  PENSTOCK_TRY(placement);
  const bool was_planned = memory_.set_planned(true);
  try {
    std::vector<ClassPlan> classes = apply(std::move(placement).value(), ids, locked);
    context_.operation_begun();
    return classes;
  } catch (const std::bad_alloc&) {
    memory_.set_planned(was_planned);  // the next get tries again
    throw;
  }
}

std::vector<TensorId> Planner::planned_ids() const {
  std::vector<TensorId> ids;
  ids.reserve(table_.records().size());
  for (const TensorRecord* const record : table_.in_order()) {
    if (record->info->role != Role::kGradient) {  // scratch: never stored, so it has no place
      ids.push_back(record->id);
    }
  }
  return ids;
}

std::vector<PlanTensor> Planner::plan_tensors(const std::vector<TensorId>& ids) const {
  std::vector<PlanTensor> tensors;
  tensors.reserve(ids.size());
  for (const TensorId id : ids) {
    const TensorRecord& record = *table_.record_of(id);
    const TensorInfo& info = *record.info;
    tensors.push_back(plan_tensor(info.name, info.role, info.is_trained, record.bytes()));
  }
  return tensors;
}

Result<Placement> Planner::compute(const std::vector<PlanTensor>& tensors) {
  Budgets& budgets = memory_.budgets();
  if (!context_.options.budgets) {
    BudgetFacts facts = facts_;
    facts.largest_class_slot_bytes = largest_regular_slot_bytes(tensors, context_.options.config);
    budgets = resolve_budgets(context_.options.config, facts);
    budgets.hold_for_devices(devices_.bytes(), context_.options.devices.size());
  }
  Result<Placement> placement = place_tensors(tensors, context_.options.config, budgets);
  if (placement.has_error()) {  // others may be declared yet, and need more than the number in it
    Error error = std::move(placement).error();
    error.message = fmt::format(
        "of the {} known so far, so that the value that works is at least the last number here "
        "(`penstock plan` counts all tensors): {}",
        counted(tensors.size(), "tensor"), error.message);
    return error;
  }
  return placement;
}

std::vector<ClassPlan> Planner::apply(Placement placement, const std::vector<TensorId>& ids,
                                      Locked& locked) {
  memory_.budgets() = placement.budgets;
  memory_.residency().set_limit_bytes(memory_.budgets().ram_bytes);
  std::vector<std::uint64_t> sizes;
  std::vector<TensorId> leave;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    TensorRecord& record = *table_.record_of(ids[i]);
    record.place = placement.tensors[i].place;
    sizes.push_back(record.bytes());
    log_decision(LogEvent::kPlace, record.info->name, [&]() PENSTOCK_NEEDS_LOCK {
      return fmt::format("{}: {}: {}", format_bytes(record.bytes()), place_name(record.place),
                         placement.why_of(placement.tensors[i]));
    });
    if (record.place != Place::kRam && memory_.residency().holds(ids[i])) {
      leave.push_back(ids[i]);
    }
  }
  std::vector<ClassPlan> classes = pool_classes(placement, sizes);
  placement_ = std::move(placement);
  for (const TensorId tensor : leave) {
    TensorRecord& record = *table_.record_of(tensor);
    log_decision(LogEvent::kEvict, record.info->name, [&]() PENSTOCK_NEEDS_LOCK {
      return fmt::format("{}: the new plan does not keep it in RAM", format_bytes(record.bytes()));
    });
    broker_.demote(record, locked);
  }
  // What is in pageable memory already may stay there; the rest becomes resident when it is next
  // read.
  for (const TensorId tensor : ids) {
    TensorRecord& record = *table_.record_of(tensor);
    if (record.place == Place::kRam && record.memory.block && record.memory.block->may_stay()) {
      memory_.residency().claim(tensor, record.bytes(),
                                record.ruled ? Residency::Claim::kRule : Residency::Claim::kPlan);
      memory_.update_use(record);
    }
  }
  memory_.sources().pinned->set_limit_bytes(memory_.budgets().max_pinned_bytes);
  drop_read_ahead(locked);
  return classes;
}

/// It lies in slots of the plan before, whose memory the new ones are made of.
void Planner::drop_read_ahead(Locked& locked) {
  std::vector<TensorId> ahead;
  std::ranges::copy(memory_.ahead().in_order() | std::views::values, std::back_inserter(ahead));
  for (const TensorId tensor : ahead) {
    TensorRecord& record = *table_.record_of(tensor);
    if (record.memory.is_in_slot()) {
      ++context_.stats.ahead_dropped;
      memory_.drop(record, locked);
    }
  }
}

/// Ends the operation that has kept the pool.
void Planner::shape_pool(const std::vector<ClassPlan>& classes, IfShaped if_shaped) {
  const Result<void> shaped =
      unless_out_of_memory([&] { return memory_.pool()->shape(classes, if_shaped); });
  {
    const BriefLock lock(context_);
    context_.operation_ended();
  }
  for (const std::string& refused : {memory_.sources().pinned_pages->refusals().huge_pages,
                                     memory_.sources().pinned_pages->refusals().numa}) {
    if (!refused.empty()) {
      log_info(LogEvent::kFallback,
               [&] { return fmt::format("pinned memory does without: {}", refused); });
    }
  }
  if (shaped.has_error()) {
    context_.warn(
        WarningCode::kNoPinnedBuffers,
        fmt::format("training goes on without pinned buffers: {}", shaped.error().message));
  }
}

void Planner::update_pinned_need() {
  std::vector<PlanTensor> tensors;
  Budgets in_force;
  const HeldBufferLedger::Totals totals = memory_.ledger().totals();
  {
    const BriefLock lock(context_);
    const bool is_known = totals.version == pinned_need_.of_version || table_.records().empty();
    if (totals.pageable_buffers == 0 || is_known) {
      return;
    }
    tensors = plan_tensors(planned_ids());
    in_force = memory_.budgets();
  }
  std::vector<HeldBuffers> held = memory_.ledger().most();
  held.push_back({kHostChunks.chunk_bytes, kHostChunks.chunks});
  std::vector<std::uint64_t> sizes;
  for (const PlanTensor& tensor : tensors) {
    sizes.push_back(tensor.bytes);
  }
  const auto pool_of = [&](std::uint64_t bytes) -> std::optional<PlannedPool> {
    Budgets budgets = in_force;
    budgets.max_pinned_bytes = bytes - devices_.bytes_of(bytes);
    budgets.max_pinned_given = true;
    const Result<Placement> placement = place_tensors(tensors, context_.options.config, budgets);
    if (placement.has_error()) {
      return std::nullopt;
    }
    return PlannedPool{pool_classes(*placement, sizes), budgets.max_pinned_bytes};
  };
  const std::optional<std::uint64_t> needed = pinned_bytes_for(held, pool_of);
  const BriefLock lock(context_);
  pinned_need_ = {totals.version, needed.value_or(0)};
}

}  // namespace penstock
