// The plan that divides the engine's memory: made, carried out, and measured by what was held.

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/memlock_limit.h"
#include "swap/log.h"
#include "swap/overflow_advice.h"
#include "swap/plan/pinned_need.h"
#include "swap/swap_engine_core.h"

namespace penstock {
namespace {

/// What the pool is shaped to: classes, buffers of single tensors, and where anything lies on a
/// drive the chunks of transfers. `sizes` are the tensors', as they were placed.
std::vector<ClassPlan> pool_classes(const Placement& placement,
                                    const std::vector<std::uint64_t>& sizes) {
  std::vector<ClassPlan> classes = placement.pool();
  if (placement.staging_bytes > 0) {
    classes.push_back({StoreTransfer::kChunkBytes, StoreTransfer::kChunksMax});
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (placement.tensors[i].place == Place::kDedicated) {
      classes.push_back({sizes[i], 1});
    }
  }
  return classes;
}

}  // namespace

Result<void> SwapEngineCore::plan() {
  std::vector<ClassPlan> classes;
  {
    Locked locked(mutex_, *this);
    if (closed_) {
      return not_open();
    }
    Result<std::vector<ClassPlan>> planned = plan_locked(locked);
    PENSTOCK_TRY(planned);
    classes = std::move(*planned);
    operation_begun();  // it keeps the pool
  }
  shape_pool(classes);
  return {};
}

/// The first one that wants a tensor makes the plan.
Result<void> SwapEngineCore::plan_before_use(TensorId tensor) {
  if (planned_) {
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || record_of(tensor) == nullptr) {
      return {};  // the use says so
    }
  }
  return plan();
}

/// What the pool is to be shaped to.
Result<std::vector<ClassPlan>> SwapEngineCore::plan_locked(Locked& locked) {
  const std::vector<TensorId> ids = planned_ids();
  Result<Placement> placement = compute_placement(plan_tensors(ids));
  PENSTOCK_TRY(placement);
  const bool was_planned = planned_.exchange(true);
  try {
    return apply_placement(std::move(placement).value(), ids, locked);
  } catch (const std::bad_alloc&) {
    planned_ = was_planned;  // the next get tries again
    throw;
  }
}

std::vector<TensorId> SwapEngineCore::planned_ids() const {
  std::vector<TensorId> ids;
  ids.reserve(records_.size());
  for (const auto& [id, record] : records_) {
    if (record->info.role != Role::kGradient) {  // scratch: never stored, so it has no place
      ids.push_back(id);
    }
  }
  return ids;
}

std::vector<PlanTensor> SwapEngineCore::plan_tensors(const std::vector<TensorId>& ids) const {
  std::vector<PlanTensor> tensors;
  tensors.reserve(ids.size());
  for (const TensorId id : ids) {
    const TensorRecord& record = *record_of(id);
    tensors.push_back(plan_tensor(record.info, record.bytes));
  }
  return tensors;
}

/// What is left for the pool beside the chunks of devices.
Budgets SwapEngineCore::pool_budgets(const BudgetFacts& facts) const {
  Budgets budgets = resolve_budgets(options_.config, facts);
  budgets.max_pinned_bytes -= std::min(budgets.max_pinned_bytes, staging_bytes_);
  return budgets;
}

Result<Placement> SwapEngineCore::compute_placement(const std::vector<PlanTensor>& tensors) {
  if (!options_.budgets) {
    BudgetFacts facts = facts_;
    facts.largest_class_slot_bytes = largest_regular_slot_bytes(tensors, options_.config);
    budgets_ = pool_budgets(facts);
  }
  Result<Placement> placement = place_tensors(tensors, options_.config, budgets_);
  if (placement.has_error() && staging_bytes_ > 0) {
    Error error = std::move(placement).error();
    error.message += fmt::format(
        "; besides, {} of max_pinned_bytes are what devices are reached "
        "through",
        format_bytes(staging_bytes_));
    return error;
  }
  return placement;
}

std::vector<ClassPlan> SwapEngineCore::apply_placement(Placement placement,
                                                       const std::vector<TensorId>& ids,
                                                       Locked& locked) {
  budgets_ = placement.budgets;
  residency_.set_limit_bytes(budgets_.ram_bytes);
  std::vector<std::uint64_t> sizes;
  std::vector<TensorId> leave;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    TensorRecord& record = *record_of(ids[i]);
    record.place = placement.tensors[i].place;
    sizes.push_back(record.bytes);
    if (record.place != Place::kRam && residency_.holds(to_number(ids[i]))) {
      leave.push_back(ids[i]);
    }
  }
  std::vector<ClassPlan> classes = pool_classes(placement, sizes);
  placement_ = std::move(placement);
  for (const TensorId tensor : leave) {
    demote(tensor, locked);
  }
  // What is in pageable memory already may stay there; the rest becomes resident when it is next
  // read.
  for (const TensorId tensor : ids) {
    TensorRecord& record = *record_of(tensor);
    if (record.place == Place::kRam && record.block && record.block->may_stay()) {
      residency_.claim(to_number(tensor), record.bytes,
                       record.ruled ? Residency::Claim::kRule : Residency::Claim::kPlan);
      update_use(record);
    }
  }
  pinned_source_->set_limit_bytes(budgets_.max_pinned_bytes);
  return classes;
}

/// Ends the operation that has kept the pool.
void SwapEngineCore::shape_pool(const std::vector<ClassPlan>& classes) {
  const Result<void> shaped = unless_out_of_memory([&] { return pool_->shape(classes); });
  {
    const std::lock_guard lock(mutex_);
    operation_ended();
  }
  for (const std::string& refused :
       {pinned_pages_->refusals().huge_pages, pinned_pages_->refusals().numa}) {
    if (!refused.empty()) {
      log_info(fmt::format("pinned memory does without: {}", refused));
    }
  }
  if (shaped.has_error()) {
    warn(fmt::format("training goes on without pinned buffers: {}", shaped.error().message));
  }
}

/// See SwapStats.
void SwapEngineCore::update_pinned_need() const {
  std::vector<PlanTensor> tensors;
  Budgets in_force;
  const HeldBufferLedger::Totals totals = held_->totals();
  {
    const std::lock_guard lock(mutex_);
    const bool is_known = totals.version == pinned_need_.of_version || records_.empty();
    if (totals.pageable_buffers == 0 || is_known) {
      return;
    }
    tensors = plan_tensors(planned_ids());
    in_force = budgets_;
  }
  std::vector<HeldBuffers> held = held_->most();
  held.push_back({StoreTransfer::kChunkBytes, StoreTransfer::kChunksMax});
  std::vector<std::uint64_t> sizes;
  for (const PlanTensor& tensor : tensors) {
    sizes.push_back(tensor.bytes);
  }
  const auto staging_bytes = [this](std::uint64_t bytes) {
    return staging_shape(bytes).bytes() * options_.devices.size();
  };
  const auto pool_of = [&](std::uint64_t bytes) -> std::optional<PlannedPool> {
    Budgets budgets = in_force;
    budgets.max_pinned_bytes = bytes - staging_bytes(bytes);
    budgets.max_pinned_given = true;
    const Result<Placement> placement = place_tensors(tensors, options_.config, budgets);
    if (placement.has_error()) {
      return std::nullopt;
    }
    return PlannedPool{pool_classes(*placement, sizes), budgets.max_pinned_bytes};
  };
  const std::optional<std::uint64_t> needed = pinned_bytes_for(held, pool_of);
  const std::lock_guard lock(mutex_);
  pinned_need_ = {totals.version, needed.value_or(0)};
}

std::optional<std::string> SwapEngineCore::overflow_advice() const {
  {
    const std::lock_guard lock(mutex_);
    advice_is_told_ = true;
  }
  return new_overflow_advice();
}

std::optional<std::string> SwapEngineCore::new_overflow_advice() const {
  if (held_->totals().pageable_buffers == 0) {
    return std::nullopt;
  }
  update_pinned_need();
  const std::lock_guard lock(mutex_);
  return penstock::overflow_advice(stats_now(), budgets_, memlock_limit_bytes());
}

}  // namespace penstock
