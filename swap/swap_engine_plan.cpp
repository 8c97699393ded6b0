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
  Outbox outbox;
  Lock lock(mutex_);
  if (closed_) {
    return not_open();
  }
  return plan_locked(lock, outbox);
}

Result<void> SwapEngineCore::plan_locked(Lock& lock, Outbox& outbox) {
  const std::vector<TensorId> ids = planned_ids();
  Result<Placement> placement = compute_placement(plan_tensors(ids));
  if (placement.has_error()) {
    return std::move(placement).error();
  }
  const bool was_planned = std::exchange(planned_, true);
  try {
    apply_placement(std::move(placement).value(), ids, lock, outbox);
  } catch (const std::bad_alloc&) {
    planned_ = was_planned;  // the next get tries again
    throw;
  }
  return {};
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

void SwapEngineCore::apply_placement(Placement placement, const std::vector<TensorId>& ids,
                                     Lock& lock, Outbox& outbox) {
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
  const std::vector<ClassPlan> classes = pool_classes(placement, sizes);
  placement_ = std::move(placement);
  for (const TensorId tensor : leave) {
    demote(tensor, lock, outbox);
  }
  // What is in pageable memory already may stay there; the rest becomes resident when it is next
  // read.
  for (const TensorId tensor : ids) {
    TensorRecord* record = record_of(tensor);
    if (record != nullptr && record->place == Place::kRam && record->block &&
        record->block->may_stay()) {
      residency_.claim(to_number(tensor), record->bytes,
                       record->ruled ? Residency::Claim::kRule : Residency::Claim::kPlan);
      update_use(*record);
    }
  }
  pinned_source_->set_limit_bytes(budgets_.max_pinned_bytes);
  const Result<void> shaped = [&] {
    const Operation keeps_the_pool(*this);
    const Unlocked open(lock);
    return pool_->shape(classes);
  }();
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

/// See SwapStats. Lets go of the lock while it plans.
void SwapEngineCore::update_pinned_need(Lock& lock) const {
  const HeldBufferLedger::Totals totals = held_->totals();
  const bool is_known = totals.version == pinned_need_.of_version || records_.empty();
  if (totals.pageable_buffers == 0 || is_known) {
    return;
  }
  std::vector<HeldBuffers> held = held_->most();
  held.push_back({StoreTransfer::kChunkBytes, StoreTransfer::kChunksMax});
  const std::vector<PlanTensor> tensors = plan_tensors(planned_ids());
  const Budgets in_force = budgets_;
  std::optional<Unlocked> open(lock);
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
  open.reset();
  pinned_need_ = {totals.version, needed.value_or(0)};
}

std::optional<std::string> SwapEngineCore::overflow_advice() const {
  Lock lock(mutex_);
  advice_is_told_ = true;
  return overflow_advice(lock);
}

/// Lets go of the lock.
std::optional<std::string> SwapEngineCore::overflow_advice(Lock& lock) const {
  if (held_->totals().pageable_buffers == 0) {
    return std::nullopt;
  }
  update_pinned_need(lock);
  return penstock::overflow_advice(stats_now(), budgets_, memlock_limit_bytes());
}

}  // namespace penstock
