#include "swap/engine/tensor_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "swap/plan/natural_order.h"
#include "swap/plan/tensor_name.h"

namespace penstock {

NamespaceId TensorTable::open(std::string name, std::shared_ptr<SwapStore> store) {
  const NamespaceId space{next_namespace_++};
  namespaces_[space] = {std::move(name), std::move(store), {}};
  return space;
}

TensorTable::Namespace* TensorTable::namespace_of(NamespaceId space) {
  const auto found = namespaces_.find(space);
  return found == namespaces_.end() ? nullptr : &found->second;
}

TensorRecord& TensorTable::add(NamespaceId space, TensorInfo info) {
  auto record = std::make_unique<TensorRecord>();
  record->id = TensorId{next_tensor_++};
  record->space = space;
  record->describe(std::make_shared<const TensorInfo>(std::move(info)));
  find_rule(*record);
  auto& by_name = namespaces_.at(space).by_name;
  const auto named = by_name.emplace(record->info->name, record->id).first;
  try {
    return *records_.emplace(record->id, std::move(record)).first->second;
  } catch (const std::bad_alloc&) {
    by_name.erase(named);
    throw;
  }
}

void TensorTable::find_rule(TensorRecord& record) const {
  record.ruled.reset();
  for (const TensorRule& rule : context_.options.config.tensors) {
    if (rule.matches(record.info->name, record.bytes())) {
      record.ruled = rule.place;
      return;
    }
  }
}

Result<void> TensorTable::rename(TensorRecord& record, std::string name) {
  if (name == record.info->name) {
    return {};
  }
  PENSTOCK_TRY(check_tensor_name(name));
  Namespace& space = namespaces_.at(record.space);
  const auto [named, is_free] = space.by_name.emplace(name, record.id);
  if (!is_free) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("'{}' cannot be renamed to '{}': that is another tensor",
                             record.info->name, name));
  }
  std::shared_ptr<const TensorInfo> info;
  try {
    TensorInfo renamed = *record.info;
    renamed.name = name;
    info = std::make_shared<const TensorInfo>(std::move(renamed));
    space.store->stage_name(record.info->name, name);
  } catch (const std::bad_alloc&) {
    space.by_name.erase(named);
    throw;
  }
  space.by_name.erase(record.info->name);
  record.describe(std::move(info));
  find_rule(record);
  return {};
}

void TensorTable::free_name(const TensorRecord& record) noexcept {
  namespaces_.at(record.space).by_name.erase(record.info->name);
}

std::optional<TensorId> TensorTable::find(NamespaceId space, const std::string& name) const {
  const auto found = namespaces_.find(space);
  if (found == namespaces_.end()) {
    return std::nullopt;
  }
  const auto tensor = found->second.by_name.find(name);
  return tensor == found->second.by_name.end() ? std::nullopt : std::optional(tensor->second);
}

TensorRecord* TensorTable::record_of(TensorId tensor) const {
  const auto found = records_.find(tensor);
  return found == records_.end() ? nullptr : found->second.get();
}

std::vector<TensorRecord*> TensorTable::in_order() const {
  std::vector<TensorRecord*> records;
  records.reserve(records_.size());
  for (const auto& [id, record] : records_) {
    records.push_back(record.get());
  }
  std::ranges::sort(records, {}, &TensorRecord::id);
  return records;
}

std::optional<Error> TensorTable::came_too_late(const SwapStore& store,
                                                const TensorInfo& info) const noexcept {
  const bool is_open = std::ranges::any_of(
      namespaces_, [&store](const auto& entry) { return entry.second.store.get() == &store; });
  if (is_open || !store.is_durable()) {
    return std::nullopt;
  }
  return said(make_error_code(Fault::kUnknownTensor), [&info] {
    return fault(Fault::kUnknownTensor,
                 fmt::format("tensor '{}' was put while its namespace was closed: it is not in "
                             "the store",
                             info.name));
  });
}

Error TensorTable::unknown(TensorId tensor) const {
  if (context_.closed) {
    return context_.not_open();
  }
  return fault(
      Fault::kUnknownTensor,
      fmt::format("there is no tensor {} (never declared, or forgotten)", to_number(tensor)));
}

std::vector<TensorId> TensorTable::tensors(NamespaceId space) const {
  std::vector<const TensorRecord*> records;
  if (const auto found = namespaces_.find(space); found != namespaces_.end()) {
    for (const auto& [name, tensor] : found->second.by_name) {
      records.push_back(record_of(tensor));
    }
  }
  std::ranges::sort(records, [](const TensorRecord* a, const TensorRecord* b) PENSTOCK_NEEDS_LOCK {
    return natural_less(a->info->name, b->info->name);
  });
  std::vector<TensorId> ids;
  for (const TensorRecord* record : records) {
    ids.push_back(record->id);
  }
  return ids;
}

}  // namespace penstock
