#include "swap/engine/namespace_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "alloc/counted.h"
#include "io/drive_cores.h"
#include "swap/log.h"
#include "swap/store/drive_path.h"

namespace penstock {

namespace {

constexpr std::size_t kNamesInWarning = 5;

std::string list_names(std::vector<std::string> names) {
  if (names.size() > kNamesInWarning) {
    names.resize(kNamesInWarning);
    names.emplace_back("…");
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// A bare directory of a caller's that the configuration lists, too: its limit and weight hold.
void add_settings(std::vector<PathConfig>& paths, const std::vector<PathConfig>& configured) {
  for (PathConfig& path : paths) {
    const auto listed = std::ranges::find_if(configured, [&path](const PathConfig& other) {
      return is_same_directory(absolute_path(path.path), absolute_path(other.path));
    });
    if (listed != configured.end() && !path.weight && !path.max_bytes) {
      path.weight = listed->weight;
      path.max_bytes = listed->max_bytes;
    }
  }
}

}  // namespace

Result<void> NamespaceSet::flush() {
  {
    Locked locked(context_);
    if (context_.closed) {
      return context_.not_open();
    }
    write_again(locked);
  }
  await_writes();
  return publish(check());
}

/// Those that have begun; later ones may still be in flight.
void NamespaceSet::await_writes() {
  WriteBarrier& writes = context_.writes;
  Locked locked(context_);
  locked.wait([&writes]() PENSTOCK_NEEDS_LOCK { return !writes.is_flushing(); });
  writes.begin_flush();
  locked.wait([&writes]() PENSTOCK_NEEDS_LOCK { return writes.has_flushed(); });
  writes.end_flush();
  context_.changed.notify_all();
}

Result<void> NamespaceSet::check() {
  const BriefLock lock(context_);
  return failures_.take();
}

Result<std::shared_ptr<SwapStore>> NamespaceSet::open_store(
    const std::vector<PathConfig>& paths) const {
  if (context_.options.config.mode == StoreMode::kScratch) {
    Result<std::unique_ptr<SwapStore>> store =
        SwapStore::open_scratch(paths, *context_.options.file_system);
    if (store.has_error()) {
      return std::move(store).error();
    }
    return std::shared_ptr<SwapStore>(std::move(store).value());
  }
  DurableStoreOptions options;
  options.directory = paths.empty() ? std::string() : paths.front().path;
  options.paths = paths;
  options.system = context_.options.file_system;
  Result<std::unique_ptr<DurableStore>> store = DurableStore::open(std::move(options));
  if (store.has_error()) {
    return std::move(store).error();
  }
  return std::shared_ptr<SwapStore>(std::move(store).value());
}

Result<NamespaceId> NamespaceSet::open(std::string name, std::vector<PathConfig> paths) {
  if (paths.empty()) {
    paths = context_.options.config.paths;
  } else {
    add_settings(paths, context_.options.config.paths);
  }
  Result<std::shared_ptr<SwapStore>> store = open_store(paths);
  if (store.has_error()) {
    log_decision(LogEvent::kRefuse, {}, [&] {
      return fmt::format("the namespace '{}' is not opened: {}", name, store.error().message);
    });
    return std::move(store).error();
  }
  NamespaceId id{};
  bool is_first = false;
  {
    Locked locked(context_);
    if (context_.closed) {
      return context_.not_open();
    }
    is_first = table_.namespaces().empty();
    id = table_.open(std::move(name), *store);
    if (const auto* durable = dynamic_cast<const DurableStore*>(store->get())) {
      try {
        resume(id, *durable);
      } catch (const std::bad_alloc&) {
        drop(id, locked);
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
void NamespaceSet::run_loop_near(const std::vector<PathConfig>& paths) {
  std::vector<std::string> directories;
  for (const PathConfig& path : paths) {
    directories.push_back(path.path);
  }
  if (const Result<void> placed = context_.queue->run_on(cores_near_drives(directories)); !placed) {
    context_.warn(WarningCode::kLoopCores, placed.error().message);
  }
}

/// Declares what a durable store holds; nothing is read before it is asked for.
void NamespaceSet::resume(NamespaceId space, const DurableStore& store) {
  std::map<std::uint32_t, std::vector<std::string>> unreadable;  // names by drive
  for (CatalogEntry& entry : store.contents()) {
    if (entry.info.bytes() == 0) {
      continue;  // stays in the store; there is nothing to lend
    }
    if (store.check_readable(*entry.extent, entry.info.name).has_error()) {
      unreadable[entry.extent->drive].push_back(entry.info.name);
    }
    TensorRecord& record = table_.add(space, std::move(entry.info));
    record.number = entry.extent->identity.tensor;
    record.generation = entry.extent->identity.generation;
    record.drive.generation = record.generation;
    record.certain_generation = record.generation;
    record.drive.stored = std::move(entry.extent);
  }
  const std::vector<DriveState> drives = store.drive_states();
  for (std::uint32_t i = 0; i < drives.size(); ++i) {
    if (drives[i].missing && unreadable.contains(i)) {
      context_.warn(WarningCode::kDriveMissing,
                    fmt::format("{} of the store {} cannot be read ({}): {}",
                                counted(unreadable[i].size(), "tensor"), store.directory(),
                                list_names(unreadable[i]), drives[i].missing->message));
    }
  }
}

Result<void> NamespaceSet::close(NamespaceId space) {
  planner_.update_pinned_need();  // while the tensors that were held are known
  const Result<std::shared_ptr<SwapStore>> store = begin_to_close(space);
  PENSTOCK_TRY(store);
  Result<void> written;
  if ((*store)->is_durable()) {
    await_writes();
    written = publish({});
  }
  if (!drop(space)) {
    return written;  // it was closed meanwhile, from elsewhere
  }
  if ((*store)->is_durable()) {
    // Of puts since: what they write to is free for the next process that opens the store.
    await_writes();
    const BriefLock lock(context_);
    if (Result<void> put = failures_.take_of(*store); put.has_error()) {
      written = std::move(put);
    }
  }
  Result<void> closed = (*store)->close();
  return written.has_error() ? written : closed;
}

Result<std::shared_ptr<SwapStore>> NamespaceSet::begin_to_close(NamespaceId space) {
  Locked locked(context_);
  if (context_.closed) {
    return context_.not_open();
  }
  const TensorTable::Namespace* const found = table_.namespace_of(space);
  if (found == nullptr) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("there is no namespace {} (closed already?)", to_number(space)));
  }
  if (found->store->is_durable()) {
    write_again(locked);
  }
  return found->store;
}

/// False: it is gone already.
bool NamespaceSet::drop(NamespaceId space) {
  {
    Locked locked(context_);
    if (table_.namespace_of(space) == nullptr) {
      return false;
    }
    drop(space, locked);
    if (!table_.namespaces().empty()) {
      return true;
    }
    memory_.account().forget_peaks();  // pages are not kept for what comes next
  }
  memory_.sources().overflow->set_limits({});
  return true;
}

void NamespaceSet::drop(NamespaceId space, Locked& locked) noexcept {
  TensorTable::Namespace& dropped = *table_.namespace_of(space);
  for (const auto& [name, tensor] : std::exchange(dropped.by_name, {})) {
    if (TensorRecord* const record = table_.record_of(tensor)) {
      declarations_.erase(*record, locked);
    }
  }
  table_.close(space);
}

Result<void> NamespaceSet::drop_all(Result<void> written, Locked& locked) noexcept {
  while (!table_.records().empty()) {
    declarations_.erase(*table_.records().begin()->second, locked);
  }
  while (!table_.namespaces().empty()) {
    const auto& [id, space] = *table_.namespaces().begin();
    Result<void> closed = unless_out_of_memory([&store = *space.store] { return store.close(); });
    if (written.has_value() && closed.has_error()) {
      written = std::move(closed).error();
    }
    table_.close(id);
  }
  return written;
}

void NamespaceSet::write_again(Locked& locked) {
  for (TensorRecord* const record : table_.in_order()) {
    if (is_kept_from_drive(*record) && record->drive.writes_in_flight == 0 &&
        record->memory.block->leases == 0) {
      log_decision(LogEvent::kRetry, record->info->name, [&]() PENSTOCK_NEEDS_LOCK {
        return fmt::format("written again: {}", record->drive.unwritten->message);
      });
      writes_.write_memory(*record, writes_.make(*record, nullptr), locked);
    }
  }
}

Result<void> NamespaceSet::publish(Result<void> written) {
  std::vector<std::shared_ptr<SwapStore>> stores;
  {
    const BriefLock lock(context_);
    for (const auto& [id, space] : table_.namespaces()) {
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

/// Of a durable store, with a content that only memory has.
bool NamespaceSet::is_kept_from_drive(const TensorRecord& record) const {
  return record.drive.unwritten && record.memory.is_current() && !record.clean() &&
         table_.store_of(record)->is_durable();
}

/// What of durable stores only memory has.
std::optional<Error> NamespaceSet::kept_from_drives() const {
  std::vector<std::string> names;
  std::optional<Error> why;
  for (TensorRecord* const record : table_.in_order()) {
    if (is_kept_from_drive(*record)) {
      names.push_back(record->info->name);
      why = record->drive.unwritten;
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
