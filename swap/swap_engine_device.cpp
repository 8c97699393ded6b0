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
  const std::lock_guard lock(mutex_);
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
  if (const Result<void> planned = plan_before_use(tensor); planned.has_error()) {
    return Ticket::failed(planned.error());
  }
  TensorInfo info;
  std::optional<DeviceRead> read;
  {
    const std::lock_guard lock(mutex_);
    const TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return Ticket::failed(unknown(tensor));
    }
    if (const auto staging = check_device(*record, target); staging.has_error()) {
      return Ticket::failed(staging.error());
    }
    if (is_read_from_drive(*record)) {
      read = device_read(*record, target);
      ++stats_.gets;
      ++stats_.misses;
      note_use(tensor);
    } else {
      info = record->info;
    }
  }
  if (!read) {
    return get_to_device_by_lease(tensor, info, target);
  }
  begin_device_read(std::move(*read), state);
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

/// From the drive. It counts as an operation from here on.
SwapEngineCore::DeviceRead SwapEngineCore::device_read(const TensorRecord& record,
                                                       const DeviceTensor& target) {
  const std::shared_ptr<SwapStore>& store = namespaces_.at(record.space).store;
  DeviceRead read{
      {DeviceTransfer::OnDrive{&store->file(*record.stored), *record.stored}, record.info, target},
      record.stored,
      store};
  stats_.tensor_read_bytes += record.bytes;
  operation_begun();
  return read;
}

/// Where it throws, nothing has begun.
void SwapEngineCore::begin_device_read(DeviceRead read, std::shared_ptr<TicketState> state) {
  try {
    DeviceStaging& staging = **staging_of(read.request.device);
    const std::uint64_t bytes = read.request.device.memory.bytes;
    staging.to_device(
        std::move(read.request),
        [core = shared_from_this(), extent = std::move(read.extent), store = std::move(read.store),
         bytes, state = std::move(state)](Result<std::uint64_t> done) {
          core->delivered(*state, bytes, error_of(std::move(done)));
        });
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    operation_ended();
    throw;
  }
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
  bool is_open = false;
  {
    const std::lock_guard lock(mutex_);
    is_open = !closed_;
    operations_ += is_open ? 1U : 0U;
  }
  if (!is_open) {
    state->fulfil(said(make_error_code(Fault::kClosed), [this] { return not_open(); }), {});
    return;
  }
  try {
    // What is in a slot is pinned for every device.
    const bool is_pinned = !lease.token()->block()->may_stay();
    const auto done = [core = shared_from_this(), held = lease, state,
                       bytes = target.memory.bytes](Result<std::uint64_t> copied) mutable {
      held.release();
      core->delivered(*state, bytes, error_of(std::move(copied)));
    };
    (*staging_of(target))
        ->to_device({DeviceTransfer::InMemory{lease.span(), is_pinned}, std::move(info), target},
                    done);
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    operation_ended();
    throw;
  }
}

/// Counted before whoever waits is told, who may ask for the count.
void SwapEngineCore::delivered(TicketState& state, std::uint64_t bytes,
                               std::optional<Error> error) {
  {
    const std::lock_guard lock(mutex_);
    stats_.to_device_bytes += error ? 0 : bytes;
  }
  state.fulfil(std::move(error), {});
  const std::lock_guard lock(mutex_);
  operation_ended();
}

// --- From a device ------------------------------------------------------------------------------

Ticket SwapEngineCore::put_from_device(TensorId tensor, const DeviceTensor& source) {
  return or_undeclared(tensor, [&] { return put_device_content(tensor, source); });
}

Ticket SwapEngineCore::put_device_content(TensorId tensor, const DeviceTensor& source) {
  auto state = std::make_shared<TicketState>(waiting_);
  std::uint64_t bytes = 0;
  bool stays = false;
  {
    Locked locked(mutex_, *this);
    TensorRecord* const record = record_of(tensor);
    if (record == nullptr || closed_) {
      return Ticket::failed(unknown(tensor));
    }
    if (const auto staging = check_device(*record, source); staging.has_error()) {
      return Ticket::failed(staging.error());
    }
    bytes = record->bytes;
    stays = claim_residency(*record, locked);
    operation_begun();
  }
  Result<std::shared_ptr<Block>> found = unless_out_of_memory(
      [&]() -> Result<std::shared_ptr<Block>> { return arrival_block(tensor, stays, bytes); });
  Locked locked(mutex_, *this);
  operation_ended();
  if (found.has_error()) {
    return Ticket::failed(std::move(found).error());
  }
  std::shared_ptr<Block> block = std::move(*found);
  TensorRecord* const record = record_of(tensor);
  if (record == nullptr || closed_) {
    locked.drop(std::move(block));
    return Ticket::failed(unknown(tensor));
  }
  WritingPtr writing = make_writing(*record, state);
  record->waiting_for_write.reserve(record->waiting_for_write.size() +
                                    record->waiting_for_read.size());
  replace(*record, *writing, locked);
  writing->device = source;
  if (block) {
    writing->block = std::move(block);
    begin_arrival(*record, std::move(writing), locked);
    return Ticket(std::move(state));
  }
  // Gets that wait for a read of the older content get the new one instead.
  for (WaitingGet& waiting : std::exchange(record->waiting_for_read, {})) {
    record->waiting_for_write.push_back(std::move(waiting));
  }
  begin_write(std::move(writing), locked);
  return Ticket(std::move(state));
}

/// Memory for a content that comes from a device: where it may stay, or a slot that is free now.
/// Null: it goes straight to its drive.
std::shared_ptr<Block> SwapEngineCore::arrival_block(TensorId tensor, bool stays,
                                                     std::uint64_t bytes) {
  if (stays) {
    Result<std::shared_ptr<Block>> block = resident_block(bytes);
    if (block.has_value()) {
      return std::move(*block);
    }
    const std::lock_guard lock(mutex_);
    residency_.release(to_number(tensor));
  }
  auto block = std::make_shared<Block>(Buffer(), bytes);
  std::optional<Buffer> slot = pool_->try_acquire_slot(bytes);
  if (!slot) {
    return nullptr;
  }
  block->buffer = std::move(*slot);
  return block;
}

/// The content is to come to `writing.block`. Gets wait for it as for a read.
void SwapEngineCore::begin_arrival(TensorRecord& record, WritingPtr writing,
                                   Locked& locked) noexcept {
  record.presence = Presence::kFilling;
  record.arriving = true;
  record.replaced = writing->before;
  record.block = writing->block;
  update_use(record);
  writing_bytes_ += writing->bytes;
  operation_begun();
  writing->fill = ++record.fill;
  writing->source = writing->block->span();
  locked.send(std::move(writing));
}

/// Copies the content from its device.
void SwapEngineCore::begin_copy(WritingPtr writing) noexcept {
  Result<void> begun = unless_out_of_memory([&]() -> Result<void> {
    const bool is_pinned = !writing->block->may_stay();
    const DeviceTensor source = *writing->device;
    DeviceStaging::Request request{DeviceTransfer::InMemory{writing->block->span(), is_pinned},
                                   writing->info, source};
    (*staging_of(source))
        ->from_device(std::move(request),
                      [core = shared_from_this(), writing](Result<std::uint64_t> copied) {
                        core->arrived(writing, error_of(std::move(copied)));
                      });
    return {};
  });
  if (begun.has_error()) {
    arrived(writing, std::move(begun).error());
  }
}

/// A newer content may have come meanwhile. Then this one is only worth writing as long as that is
/// not certain itself.
void SwapEngineCore::arrived(const WritingPtr& arrival, std::optional<Error> error) noexcept {
  Locked locked(mutex_, *this);
  Writing& writing = *arrival;
  TensorRecord* const record = record_of(writing.id);
  const std::uint64_t fill = std::exchange(writing.fill, 0);
  const bool is_newest = record != nullptr && record->arriving && record->fill == fill;
  std::shared_ptr<Block> block = writing.block;
  writing_bytes_ -= writing.bytes;
  stats_.from_device_bytes += error ? 0 : writing.device->memory.bytes;
  if (error) {
    locked.drop(std::move(writing.block));
    if (is_newest) {
      drop_memory(*record, locked);
    }
    write_failed(record, writing, std::move(*error), locked);
    if (is_newest) {
      if (record->presence == Presence::kAbsent) {
        residency_.release(to_number(writing.id));
      }
      serve_again(writing.id, std::exchange(record->waiting_for_read, {}), locked);
      undo_declaration(writing.id, locked);
    }
  } else if (is_newest) {
    settle_content(*record, arrival, locked);
  } else if (record != nullptr && record->certain_generation < writing.generation) {
    begin_write(arrival, locked);
  } else {
    locked.fulfil(std::move(writing.ticket), std::nullopt);
  }
  locked.drop(std::move(block));
  operation_ended();
  locked.run_ahead();
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
  {
    const std::lock_guard lock(mutex_);
    if (!claim_for_newest(writing)) {
      return false;
    }
  }
  Result<std::shared_ptr<Block>> block =
      unless_out_of_memory([&] { return resident_block(writing.bytes); });
  Locked locked(mutex_, *this);
  if (block.has_error() || !claim_for_newest(writing)) {
    if (block.has_value()) {
      locked.drop(std::move(*block));
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
  drop_memory(*record, locked);
  --record->writes_in_flight;
  writing_bytes_ -= writing.bytes;
  writing.block = std::move(*block);
  begin_arrival(*record, arrival, locked);
  operation_ended();
  return true;
}

}  // namespace penstock
