// How contents come to the memory of devices and from there: through pinned slots where they lie in
// one, else through a few chunks, and nobody waits for a copy.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "alloc/pinned_source.h"
#include "swap/log.h"
#include "swap/numa_choice.h"
#include "swap/swap_engine_core.h"

namespace penstock {

using Presence = TensorRecord::Presence;

namespace {

// Enough that drive and device are both busy with MiBs each; more would be taken from slots.
constexpr std::uint64_t kStagingBytesMax = 32 * kMiB;
constexpr std::uint64_t kStagingShare = 4;  // of max_pinned_bytes

std::optional<Error> error_of(Result<std::uint64_t> done) {
  return done.has_error() ? std::optional(std::move(done).error()) : std::nullopt;
}

}  // namespace

/// Chunks for every device, taken from max_pinned_bytes before the pool gets the rest.
Result<void> SwapEngineCore::open_stagings(const std::vector<PinHook>& hooks) {
  const std::size_t count = options_.devices.size();
  if (count == 0) {
    return {};
  }
  const DeviceStaging::Shape shape = staging_shape(budgets_.max_pinned_bytes);
  if (shape.chunk_bytes < 2 * kBlockBytes) {
    return fault(Fault::kConfiguration,
                 fmt::format("max_pinned_bytes is {}: with {} device{} it must be {} at least",
                             format_bytes(budgets_.max_pinned_bytes), count, count == 1 ? "" : "s",
                             format_bytes(2 * kBlockBytes * shape.chunks * count * kStagingShare)));
  }
  for (const std::shared_ptr<Device>& device : options_.devices) {
    const auto pages = PageSource::make(
        {.huge_pages = HugePages::kReserved, .numa = choose_numa_node(device->facts().numa_node)});
    Result<std::unique_ptr<DeviceStaging>> staging = DeviceStaging::open(
        *queue_, device, *PinnedSource::make(pages, hooks), shape, direct_storage_of(*device));
    PENSTOCK_TRY(staging);
    stagings_.push_back(std::move(*staging));
    staging_bytes_ += shape.bytes();
  }
  budgets_.max_pinned_bytes -= staging_bytes_;
  return {};
}

/// Of each device's chunks; none where there is no device.
DeviceStaging::Shape SwapEngineCore::staging_shape(std::uint64_t max_pinned_bytes) const {
  DeviceStaging::Shape shape;
  const std::uint64_t whole = std::min(kStagingBytesMax, max_pinned_bytes / kStagingShare);
  const std::uint64_t share = options_.devices.empty() ? 0 : whole / options_.devices.size();
  shape.chunk_bytes = align_down(share / shape.chunks, kBlockBytes);
  return shape;
}

/// Where a setting asks for it: null, with a warning that says why, where it cannot be.
std::shared_ptr<DirectStorage> SwapEngineCore::direct_storage_of(const Device& device) const {
  const std::string& setting = options_.config.direct_storage_setting;
  if (setting.empty()) {
    return nullptr;
  }
  const std::string what =
      fmt::format("{}: contents go to and from {}:{} through host memory: ", setting,
                  device.runtime(), device.facts().number);
  if (options_.config.integrity != IntegrityLevel::kOff) {
    warn(what + "checksums are of bytes that pass there (penstock.integrity 'off' does without)");
    return nullptr;
  }
  Result<std::shared_ptr<DirectStorage>> direct = open_direct_storage(device);
  if (direct.has_error()) {
    warn(what + direct.error().message);
    return nullptr;
  }
  log_info(fmt::format("contents go straight between drives and {}:{}, by {}", device.runtime(),
                       device.facts().number, (*direct)->library()));
  return std::move(*direct);
}

Result<DeviceStaging*> SwapEngineCore::staging_of(const DeviceTensor& tensor) const {
  const auto found =
      std::ranges::find(options_.devices, tensor.device, &std::shared_ptr<Device>::get);
  if (found == options_.devices.end()) {
    return fault(Fault::kInvalidArgument,
                 tensor.device == nullptr
                     ? std::string("no device is named for the tensor")
                     : fmt::format("the engine was not opened for {}:{}", tensor.device->runtime(),
                                   tensor.device->facts().number));
  }
  return stagings_[static_cast<std::size_t>(found - options_.devices.begin())].get();
}

/// Whether memory comes back, or I/O goes on, by this very thread.
bool SwapEngineCore::on_own_thread() const {
  return queue_->on_loop_thread() ||
         std::ranges::any_of(stagings_, [](const auto& staging) { return staging->on_thread(); });
}

Result<DeviceStaging*> SwapEngineCore::check_device(const TensorRecord& record,
                                                    const DeviceTensor& tensor) const {
  PENSTOCK_TRY(check_device_tensor(record.info, tensor));
  return staging_of(tensor);
}

Result<StreamId> SwapEngineCore::device_stream(const Device& device,
                                               DeviceTransfer::Direction direction) const {
  Lock lock(mutex_);
  if (closed_) {
    return not_open();
  }
  const Result<DeviceStaging*> staging = staging_of({.device = &device});
  PENSTOCK_TRY(staging);
  return (*staging)->stream(direction);
}

// --- To a device --------------------------------------------------------------------------------

Ticket SwapEngineCore::get_to_device(TensorId tensor, const DeviceTensor& target) {
  auto state = std::make_shared<TicketState>(stalls_);
  {
    Outbox outbox;
    Lock lock(mutex_);
    const Result<TensorRecord*> found = planned_record(tensor, lock, outbox);
    if (found.has_error()) {
      return Ticket::failed(found.error());
    }
    TensorRecord& record = **found;
    if (const auto staging = check_device(record, target); staging.has_error()) {
      return Ticket::failed(staging.error());
    }
    if (!is_read_from_drive(record)) {
      const TensorInfo info = record.info;
      lock.unlock();
      return get_to_device_by_lease(tensor, info, target);
    }
    ++stats_.gets;
    ++stats_.misses;
    note_use(tensor);
    read_to_device(record, target, state, lock);
  }
  run_ahead();
  return Ticket(std::move(state));
}

/// Whether its content lies on a drive alone, and is not to be kept in RAM.
bool SwapEngineCore::is_read_from_drive(const TensorRecord& record) const {
  const SwapStore& store = *namespaces_.at(record.space).store;
  return record.presence == Presence::kAbsent && record.writes_in_flight == 0 && record.stored &&
         record.place != Place::kRam &&
         store.check_readable(*record.stored, record.info.name).has_value();
}

/// Lets go of the lock; its record may be gone when this returns.
void SwapEngineCore::read_to_device(const TensorRecord& record, const DeviceTensor& target,
                                    std::shared_ptr<TicketState> state, Lock& lock) {
  const std::shared_ptr<SwapStore>& store = namespaces_.at(record.space).store;
  DeviceStaging::Request request{
      DeviceTransfer::OnDrive{&store->file(*record.stored), *record.stored}, record.info, target};
  stats_.tensor_read_bytes += record.bytes;
  Operation operation(*this);
  const auto done = [core = shared_from_this(), extent = record.stored, store,
                     bytes = target.memory.bytes,
                     state = std::move(state)](Result<std::uint64_t> read) {
    core->delivered(*state, bytes, error_of(std::move(read)));
  };
  DeviceStaging& staging = **staging_of(target);
  {
    const Unlocked open(lock);
    staging.to_device(std::move(request), done);
  }
  operation.hand_over();
}

/// The content is in memory, or on its way there; the lease ends with the copy.
Ticket SwapEngineCore::get_to_device_by_lease(TensorId tensor, const TensorInfo& info,
                                              const DeviceTensor& target) {
  auto state = std::make_shared<TicketState>(stalls_);
  get(tensor, Access::kRead)
      .then([core = shared_from_this(), info, target, state](const Ticket& done) {
        const Result<void> begun = unless_out_of_memory([&]() -> Result<void> {
          const Result<Lease> lease = done.lease();
          PENSTOCK_TRY(lease);
          core->copy_to_device(*lease, info, target, state);
          return {};
        });
        if (begun.has_error()) {
          state->fulfil(copy_of(begun.error()), {});
        }
      });
  return Ticket(std::move(state));
}

/// Where it throws, nothing has begun.
void SwapEngineCore::copy_to_device(const Lease& lease, TensorInfo info, const DeviceTensor& target,
                                    const std::shared_ptr<TicketState>& state) {
  Lock lock(mutex_);
  if (closed_) {
    lock.unlock();
    state->fulfil(said(make_error_code(Fault::kClosed), [this] { return not_open(); }), {});
    return;
  }
  Operation operation(*this);
  // What is in a slot is pinned for every device.
  const bool is_pinned = !lease.token()->block()->may_stay();
  {
    const Unlocked open(lock);
    const auto done = [core = shared_from_this(), held = lease, state,
                       bytes = target.memory.bytes](Result<std::uint64_t> copied) mutable {
      held.release();
      core->delivered(*state, bytes, error_of(std::move(copied)));
    };
    (*staging_of(target))
        ->to_device({DeviceTransfer::InMemory{lease.span(), is_pinned}, std::move(info), target},
                    done);
  }
  operation.hand_over();
}

/// Counted before whoever waits is told, who may ask for the count.
void SwapEngineCore::delivered(TicketState& state, std::uint64_t bytes,
                               std::optional<Error> error) {
  {
    Lock lock(mutex_);
    stats_.to_device_bytes += error ? 0 : bytes;
  }
  state.fulfil(std::move(error), {});
  Lock lock(mutex_);
  operation_ended();
}

// --- From a device ------------------------------------------------------------------------------

Ticket SwapEngineCore::put_from_device(TensorId tensor, const DeviceTensor& source) {
  return or_undeclared(tensor, [&] { return put_device_content(tensor, source); });
}

Ticket SwapEngineCore::put_device_content(TensorId tensor, const DeviceTensor& source) {
  Outbox outbox;
  Lock lock(mutex_);
  TensorRecord* record = record_of(tensor);
  if (record == nullptr || closed_) {
    return Ticket::failed(unknown(tensor));
  }
  if (const auto staging = check_device(*record, source); staging.has_error()) {
    return Ticket::failed(staging.error());
  }
  std::shared_ptr<Block> block = arrival_block(tensor, lock, outbox);
  record = record_of(tensor);
  if (record == nullptr || closed_) {
    outbox.drop(std::move(block));
    return Ticket::failed(unknown(tensor));
  }
  auto state = std::make_shared<TicketState>(waiting_);
  WritingPtr writing = make_writing(*record, state);
  record->waiting_for_write.reserve(record->waiting_for_write.size() +
                                    record->waiting_for_read.size());
  replace(*record, *writing, outbox);
  writing->device = source;
  if (block) {
    writing->block = std::move(block);
    begin_arrival(*record, std::move(writing), lock);
    return Ticket(std::move(state));
  }
  // Gets that wait for a read of the older content get the new one instead.
  for (WaitingGet& waiting : std::exchange(record->waiting_for_read, {})) {
    record->waiting_for_write.push_back(std::move(waiting));
  }
  begin_write(std::move(writing), lock);
  return Ticket(std::move(state));
}

/// Memory for a content that comes from a device: where it may stay, or a slot that is free now.
/// Null: it goes straight to its drive. Lets go of the lock.
std::shared_ptr<Block> SwapEngineCore::arrival_block(TensorId tensor, Lock& lock, Outbox& outbox) {
  TensorRecord& record = *record_of(tensor);
  const std::uint64_t bytes = record.bytes;
  if (claim_residency(record, lock, outbox)) {
    Result<std::shared_ptr<Block>> block = resident_block(bytes, lock);
    if (block.has_value()) {
      return std::move(*block);
    }
    residency_.release(to_number(tensor));
  }
  auto block = std::make_shared<Block>(Buffer(), bytes);
  std::optional<Buffer> slot = closed_ ? std::nullopt : pool_->try_acquire_slot(bytes);
  if (!slot) {
    return nullptr;
  }
  block->buffer = std::move(*slot);
  return block;
}

/// Copies the content into `writing.block`. Gets wait for it as for a read. Lets go of the lock;
/// the record may be gone when this returns.
void SwapEngineCore::begin_arrival(TensorRecord& record, WritingPtr writing, Lock& lock) noexcept {
  record.presence = Presence::kFilling;
  record.arriving = true;
  record.replaced = writing->before;
  record.block = writing->block;
  update_use(record);
  writing_bytes_ += writing->bytes;
  operation_begun();
  const std::uint64_t fill = ++record.fill;
  writing->source = writing->block->span();
  const Unlocked open(lock);
  Result<void> begun = unless_out_of_memory([&]() -> Result<void> {
    const bool is_pinned = !writing->block->may_stay();
    const DeviceTensor source = *writing->device;
    DeviceStaging::Request request{DeviceTransfer::InMemory{writing->block->span(), is_pinned},
                                   writing->info, source};
    (*staging_of(source))
        ->from_device(std::move(request),
                      [core = shared_from_this(), fill, writing](Result<std::uint64_t> copied) {
                        core->arrived(writing, fill, error_of(std::move(copied)));
                      });
    return {};
  });
  if (begun.has_error()) {
    arrived(writing, fill, std::move(begun).error());
  }
}

/// A newer content may have come meanwhile. Then this one is only worth writing as long as that is
/// not certain itself.
void SwapEngineCore::arrived(const WritingPtr& arrival, std::uint64_t fill,
                             std::optional<Error> error) noexcept {
  {
    Outbox outbox;
    Lock lock(mutex_);
    Writing& writing = *arrival;
    TensorRecord* const record = record_of(writing.id);
    const bool is_newest = record != nullptr && record->arriving && record->fill == fill;
    std::shared_ptr<Block> block = writing.block;
    writing_bytes_ -= writing.bytes;
    stats_.from_device_bytes += error ? 0 : writing.device->memory.bytes;
    if (error) {
      outbox.drop(std::move(writing.block));
      if (is_newest) {
        drop_memory(*record, outbox);
      }
      write_failed(record, writing, std::move(*error), outbox);
      if (is_newest) {
        if (record->presence == Presence::kAbsent) {
          residency_.release(to_number(writing.id));
        }
        serve_again(writing.id, std::exchange(record->waiting_for_read, {}), lock, outbox);
        undo_declaration(writing.id, outbox);
      }
    } else if (is_newest) {
      settle_content(*record, arrival, lock, outbox);
    } else if (record != nullptr && record->certain_generation < writing.generation) {
      begin_write(arrival, lock);
    } else {
      outbox.fulfil(std::move(writing.ticket), std::nullopt);
    }
    outbox.drop(std::move(block));
    operation_ended();
  }
  run_ahead();
}

/// Straight to the drive: whoever has no memory to spare needs none. Where it throws, nothing has
/// begun.
void SwapEngineCore::write_from_device(WritingPtr writing) {
  DeviceStaging& staging = **staging_of(*writing->device);
  DeviceStaging::Request request{
      DeviceTransfer::OnDrive{&writing->store->file(*writing->stored), *writing->stored},
      writing->info, *writing->device};
  staging.from_device(std::move(request), [core = shared_from_this(), writing = std::move(writing)](
                                              Result<std::uint64_t> written) {
    if (written.has_value()) {
      writing->stored->identity.checksum = *written;
    }
    core->write_finished(writing, error_of(std::move(written)));
  });
}

/// Full drive: within ram_bytes the content comes to RAM instead.
bool SwapEngineCore::arrive_instead(const WritingPtr& arrival, const Error& error) {
  Writing& writing = *arrival;
  if (!writing.source.empty()) {
    return false;
  }
  Outbox outbox;
  Lock lock(mutex_);
  if (!claim_for_newest(writing)) {
    return false;
  }
  Result<std::shared_ptr<Block>> block =
      unless_out_of_memory([&] { return resident_block(writing.bytes, lock); });
  if (block.has_error() || !claim_for_newest(writing)) {
    if (block.has_value()) {
      outbox.drop(std::move(*block));
    }
    give_up_claim(writing);
    return false;
  }
  TensorRecord* const record = record_of(writing.id);
  record->waiting_for_read.reserve(record->waiting_for_read.size() +
                                   record->waiting_for_write.size());
  for (WaitingGet& waiting : std::exchange(record->waiting_for_write, {})) {
    record->waiting_for_read.push_back(std::move(waiting));
  }
  if_memory_allows(
      [&] { warn(fmt::format("{}; it is kept in RAM within ram_bytes", error.message)); });
  if (OlderContent older = older_content(*record); older.block) {
    writing.before = std::move(older);
  }
  drop_memory(*record, outbox);
  --record->writes_in_flight;
  writing_bytes_ -= writing.bytes;
  writing.block = std::move(*block);
  begin_arrival(*record, arrival, lock);
  operation_ended();
  return true;
}

}  // namespace penstock
