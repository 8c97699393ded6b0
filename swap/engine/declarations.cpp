#include "swap/engine/declarations.h"

#include <fmt/format.h>

#include <utility>

#include "swap/plan/tensor_name.h"

namespace penstock {

Result<void> Declarations::usable() const {
  const BriefLock lock(context_);
  return context_.closed ? Result<void>(context_.not_open()) : Result<void>();
}

Result<TensorId> Declarations::declare(NamespaceId space, TensorInfo info, bool to_put) {
  const BriefLock lock(context_);
  if (context_.closed) {
    return context_.not_open();
  }
  const TensorTable::Namespace* const found = table_.namespace_of(space);
  if (found == nullptr) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("there is no namespace {}", to_number(space)));
  }
  PENSTOCK_TRY(check_tensor_name(info.name));
  if (!info.fits_63_bits() || info.bytes() == 0) {
    return fault(Fault::kWrongSize, fmt::format("tensor '{}' has {} bytes", info.name,
                                                info.fits_63_bits() ? "no" : "more than 2^63"));
  }
  PENSTOCK_TRY(check_axes(info.name, info.shape.size()));
  if (found->by_name.contains(info.name)) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("tensor '{}' is declared already in '{}'", info.name, found->name));
  }
  TensorRecord& record = table_.add(space, std::move(info));
  record.number = found->store->number_tensor();
  record.drive.awaits_first_put = to_put;
  return record.id;
}

Result<void> Declarations::forget(TensorId tensor) {
  Locked locked(context_);
  TensorRecord* record = table_.record_of(tensor);
  if (record == nullptr) {
    return table_.unknown(tensor);
  }
  table_.store_of(*record)->stage_removal(record->info->name);
  table_.free_name(*record);
  erase(*record, locked);
  return {};
}

Result<void> Declarations::rename(TensorId tensor, std::string name) {
  const BriefLock lock(context_);
  TensorRecord* const record = table_.record_of(tensor);
  if (record == nullptr) {
    return table_.unknown(tensor);
  }
  return table_.rename(*record, std::move(name));
}

Result<void> Declarations::set_trained(TensorId tensor, bool is_trained) {
  const BriefLock lock(context_);
  TensorRecord* record = table_.record_of(tensor);
  if (record == nullptr) {
    return table_.unknown(tensor);
  }
  TensorInfo info = *record->info;
  info.is_trained = is_trained;
  record->describe(std::make_shared<const TensorInfo>(std::move(info)));
  return {};
}

Result<std::shared_ptr<const TensorInfo>> Declarations::info(TensorId tensor) const {
  const BriefLock lock(context_);
  const TensorRecord* record = table_.record_of(tensor);
  if (record == nullptr) {
    return table_.unknown(tensor);
  }
  return record->info;
}

void Declarations::erase(TensorRecord& record, Locked& locked) noexcept {
  const Error gone =
      context_.closed
          ? said(make_error_code(Fault::kClosed), [this] { return context_.not_open(); })
          : said(make_error_code(Fault::kUnknownTensor), [&record]() PENSTOCK_NEEDS_LOCK {
              return fault(
                  Fault::kUnknownTensor,
                  fmt::format("tensor '{}' was forgotten while it was read", record.info->name));
            });
  fail_reads(record, gone, locked);
  for (WaitingGet& waiting : record.gets.for_write) {
    locked.fulfil(std::move(waiting.ticket), copy_of(gone));
  }
  memory_.drop(record, locked);
  memory_.residency().release(record.id);
  locked.drop(std::move(record.drive.stored));
  table_.erase(record);
}

void Declarations::undo(TensorId tensor, Locked& locked) noexcept {
  TensorRecord* const record = table_.record_of(tensor);
  if (record == nullptr || !record->drive.awaits_first_put || record->drive.stored ||
      record->memory.block || !record->memory.is_absent() || record->drive.writes_in_flight > 0) {
    return;
  }
  table_.free_name(*record);
  erase(*record, locked);
}

std::optional<TensorId> Declarations::find(NamespaceId space, const std::string& name) const {
  const BriefLock lock(context_);
  return table_.find(space, name);
}

std::vector<TensorId> Declarations::tensors(NamespaceId space) const {
  const BriefLock lock(context_);
  return table_.tensors(space);
}

Result<TensorState> Declarations::state(TensorId tensor) const {
  const BriefLock lock(context_);
  const TensorRecord* record = table_.record_of(tensor);
  if (record == nullptr) {
    return table_.unknown(tensor);
  }
  TensorState state;
  state.name = record->info->name;
  state.bytes = record->bytes();
  state.place = record->place;
  state.generation = record->generation;
  state.in_memory = record->memory.is_current();
  state.resident = memory_.residency().holds(tensor) && state.in_memory;
  state.on_drive = record->drive.stored != nullptr;
  state.writing = record->drive.writes_in_flight > 0 || record->memory.is_arriving();
  return state;
}

void Declarations::fail_reads(TensorRecord& record, const Error& error, Locked& locked) noexcept {
  for (WaitingGet& waiting : std::exchange(record.gets.for_read, {})) {
    locked.fulfil(std::move(waiting.ticket), copy_of(error));
  }
}

}  // namespace penstock
