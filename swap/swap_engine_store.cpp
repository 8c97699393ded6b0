// Namespaces and their stores: opened, resumed, published, closed.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "io/drive_cores.h"
#include "swap/plan/natural_order.h"
#include "swap/swap_engine_core.h"

namespace penstock {

using Presence = TensorRecord::Presence;

namespace {

constexpr std::size_t kNamesInWarning = 5;

std::string list_names(std::vector<std::string> names) {
  if (names.size() > kNamesInWarning) {
    names.resize(kNamesInWarning);
    names.emplace_back("…");
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<std::shared_ptr<SwapStore>> SwapEngineCore::open_store(
    const std::vector<PathConfig>& paths) const {
  if (options_.config.mode == "scratch") {
    Result<std::unique_ptr<SwapStore>> store =
        SwapStore::open_scratch(paths, *options_.file_system);
    if (store.has_error()) {
      return std::move(store).error();
    }
    return std::shared_ptr<SwapStore>(std::move(store).value());
  }
  DurableStoreOptions options;
  options.directory = paths.empty() ? std::string() : paths.front().path;
  options.paths = paths;
  options.system = options_.file_system;
  Result<std::unique_ptr<DurableStore>> store = DurableStore::open(std::move(options));
  if (store.has_error()) {
    return std::move(store).error();
  }
  return std::shared_ptr<SwapStore>(std::move(store).value());
}

Result<NamespaceId> SwapEngineCore::open_namespace(std::string name,
                                                   std::vector<PathConfig> paths) {
  if (paths.empty()) {
    paths = options_.config.paths;
  }
  Result<std::shared_ptr<SwapStore>> store = open_store(paths);
  if (store.has_error()) {
    return std::move(store).error();
  }
  NamespaceId id{};
  bool is_first = false;
  {
    Locked locked(mutex_, *this);
    if (closed_) {
      return not_open();
    }
    id = NamespaceId{next_namespace_++};
    is_first = namespaces_.empty();
    namespaces_[id] = {std::move(name), *store, {}};
    if (const auto* durable = dynamic_cast<const DurableStore*>(store->get())) {
      try {
        resume(id, *durable);
      } catch (const std::bad_alloc&) {
        drop_namespace(id, locked);
        throw;
      }
    }
  }
  if (is_first) {
    run_loop_near(paths);
  }
  return id;
}

/// Where the machine says what is near; the drives of the first namespace count.
void SwapEngineCore::run_loop_near(const std::vector<PathConfig>& paths) {
  std::vector<std::string> directories;
  for (const PathConfig& path : paths) {
    directories.push_back(path.path);
  }
  if (const Result<void> placed = queue_->run_on(cores_near_drives(directories)); !placed) {
    options_.warn(placed.error().message);
  }
}

/// Declares what a durable store holds; nothing is read before it is asked for.
void SwapEngineCore::resume(NamespaceId space, const DurableStore& store) {
  std::map<std::uint32_t, std::vector<std::string>> unreadable;  // names by drive
  for (CatalogEntry& entry : store.contents()) {
    if (entry.info.bytes() == 0) {
      continue;  // stays in the store; there is nothing to lend
    }
    if (store.check_readable(*entry.extent, entry.info.name).has_error()) {
      unreadable[entry.extent->drive].push_back(entry.info.name);
    }
    TensorRecord& record = add_record(space, std::move(entry.info));
    record.number = entry.extent->identity.tensor;
    record.generation = entry.extent->identity.generation;
    record.stored_generation = record.generation;
    record.certain_generation = record.generation;
    record.stored = std::move(entry.extent);
  }
  const std::vector<DriveState> drives = store.drive_states();
  for (std::uint32_t i = 0; i < drives.size(); ++i) {
    if (drives[i].missing) {
      warn(fmt::format("{} tensors of the store {} cannot be read ({}): {}", unreadable[i].size(),
                       store.directory(), list_names(unreadable[i]), drives[i].missing->message));
    }
  }
}

Result<void> SwapEngineCore::close_namespace(NamespaceId space) {
  update_pinned_need();  // while the tensors that were held are known
  std::shared_ptr<SwapStore> store;
  {
    Locked locked(mutex_, *this);
    if (closed_) {
      return not_open();
    }
    const auto found = namespaces_.find(space);
    if (found == namespaces_.end()) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("there is no namespace {} (closed already?)", to_number(space)));
    }
    store = found->second.store;
    if (store->is_durable()) {
      write_again(locked);
    }
  }
  Result<void> written;
  if (store->is_durable()) {
    {
      Locked locked(mutex_, *this);
      locked.wait(*waiting_, changed_, [this] { return writing_bytes_ == 0; });
    }
    written = publish_stores({});
  }
  bool is_last = false;
  {
    Locked locked(mutex_, *this);
    if (!namespaces_.contains(space)) {
      return written;  // it was closed meanwhile, from elsewhere
    }
    drop_namespace(space, locked);
    is_last = namespaces_.empty();
    if (is_last) {  // what comes next may be far smaller: pages are not kept for it
      held_overflow_max_ = 0;
      held_content_max_ = 0;
    }
  }
  if (is_last) {
    overflow_source_->set_retained_limit_bytes(0);
  }
  Result<void> closed = store->close();
  return written.has_error() ? written : closed;
}

void SwapEngineCore::drop_namespace(NamespaceId space, Locked& locked) noexcept {
  const Namespace dropped = std::move(namespaces_.at(space));
  for (const auto& [name, tensor] : dropped.by_name) {
    if (TensorRecord* record = record_of(tensor)) {
      erase_record(*record, locked);
    }
  }
  namespaces_.erase(space);
}

std::vector<TensorId> SwapEngineCore::tensors(NamespaceId space) const {
  const std::lock_guard lock(mutex_);
  std::vector<const TensorRecord*> records;
  if (const auto found = namespaces_.find(space); found != namespaces_.end()) {
    for (const auto& [name, tensor] : found->second.by_name) {
      records.push_back(record_of(tensor));
    }
  }
  std::ranges::sort(records, [](const TensorRecord* a, const TensorRecord* b) {
    return natural_less(a->info.name, b->info.name);
  });
  std::vector<TensorId> ids;
  for (const TensorRecord* record : records) {
    ids.push_back(record->id);
  }
  return ids;
}

/// Contents of durable stores whose write has failed, and that nothing may be changing, try it once
/// more.
void SwapEngineCore::write_again(Locked& locked) {
  for (const auto& [id, record] : records_) {
    const bool is_to_be_written = record->unwritten &&
                                  namespaces_.at(record->space).store->is_durable() &&
                                  record->presence == Presence::kCurrent && !record->clean() &&
                                  record->writes_in_flight == 0 && record->block->leases == 0;
    if (is_to_be_written) {
      write_memory(*record, make_writing(*record, nullptr), locked);
    }
  }
}

/// After everything has been written that can be: publishes, and says what is not safe. `written`
/// if that is an error already.
Result<void> SwapEngineCore::publish_stores(Result<void> written) {
  std::vector<std::shared_ptr<SwapStore>> stores;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, space] : namespaces_) {
      stores.push_back(space.store);
    }
    if (std::optional<Error> kept = kept_from_drives(); kept && written.has_value()) {
      written = std::move(*kept);
    }
  }
  for (const std::shared_ptr<SwapStore>& store : stores) {
    Result<void> published = store->publish();
    if (published.has_error() && written.has_value()) {
      written = std::move(published).error();
    }
  }
  return written;
}

/// What of durable stores only memory has.
std::optional<Error> SwapEngineCore::kept_from_drives() const {
  std::vector<std::string> names;
  std::optional<Error> why;
  for (const auto& [id, record] : records_) {
    if (record->unwritten && record->presence == Presence::kCurrent && !record->clean() &&
        namespaces_.at(record->space).store->is_durable()) {
      names.push_back(record->info.name);
      why = record->unwritten;
    }
  }
  if (why) {
    why->tensor = names.back();
    why->message = fmt::format("{} tensors ({}) are in memory only and would not survive: {}",
                               names.size(), list_names(names), why->message);
  }
  return why;
}

}  // namespace penstock
