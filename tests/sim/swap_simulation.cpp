#include "tests/sim/swap_simulation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "io/sim_engine.h"
#include "tests/sim/tensor_content.h"

namespace penstock {
namespace {

constexpr std::size_t kGetsMax = 12;
constexpr std::size_t kPutsMax = 12;
constexpr std::size_t kHeldMax = 8;
constexpr std::size_t kUpdatesMax = 3;
constexpr std::uint64_t kWeatherEvery = 400;   // operations
constexpr std::uint64_t kVerifyEvery = 4'000;  // with the faults gone
constexpr std::uint64_t kReopenEvery = 16'000;
constexpr std::uint64_t kPowerCutEvery = 500;   // on average, in the durable half
constexpr std::uint64_t kPowerCutWithin = 600;  // requests
// Enough for everything beside itself, too little for files to grow in advance: so disks run full.
constexpr std::uint64_t kRoomBytes = 8 * kMiB;

// What a request meets in bad weather at most; 0: set otherwise, or not of this simulation.
constexpr double worst_rate(SimFault fault) {
  switch (fault) {
    case SimFault::kShort:
    case SimFault::kInterrupted:
    case SimFault::kAgain:
      return 0.2;
    case SimFault::kReadError:
    case SimFault::kWriteError:
      return 0.05;
    case SimFault::kSyncError:
      return 0.5;  // there are few
    case SimFault::kBitFlip:
    case SimFault::kStaleRead:
    case SimFault::kMisdirectedRead:
      return 0.03;
    case SimFault::kBadRange:
    case SimFault::kNoSpace:
    case SimFault::kPowerCut:
      return 0.0;
  }
  return 0.0;
}

constexpr bool is_silent(SimFault fault) {
  return fault == SimFault::kBitFlip || fault == SimFault::kStaleRead ||
         fault == SimFault::kMisdirectedRead;
}

}  // namespace

SwapSimulation::SwapSimulation(const SimulationOptions& options)
    : options_(options), random_(options.seed) {
  SimDiskOptions disk;
  disk.seed = random_();
  disk.capacity_bytes = kRoomBytes;
  disk_ = std::make_unique<SimDisk>(disk);
  tensors_.resize(kTensors);
  open_engine();
}

SwapSimulation::~SwapSimulation() {
  close_engine();
}

SimulationReport SwapSimulation::run() {
  for (std::uint64_t i = 1; i <= options_.operations && report_.violation.empty(); ++i) {
    if (i == options_.operations / 2) {
      begin_durable_half();
    }
    if (i % kWeatherEvery == 0) {
      change_weather();
    }
    if (durable_ && one_in(kPowerCutEvery)) {
      disk_->cut_power_after(below(kPowerCutWithin));
    }
    operate();
    settle();
    if (i % kReopenEvery == 0 || disk_->power_is_cut()) {
      restart();
    } else if (i % kVerifyEvery == 0) {
      verify_all();
    }
    ++report_.operations;
  }
  if (report_.violation.empty()) {
    if (durable_) {
      restart();
    }
    verify_all();
  }
  report_.faults = disk_->faults_made();
  return report_;
}

// --- The world
// ------------------------------------------------------------------------------------

/// Without the silent faults where a manifest is read: who reads a wrong one without being told
/// cannot know a better one.
void SwapSimulation::change_weather(bool silent_faults) {
  if (one_in(4)) {
    calm();
    return;
  }
  stormy_ = true;
  std::array<double, kSimFaults> rates{};
  for (std::size_t i = 0; i < kSimFaults; ++i) {
    const bool allowed = silent_faults || !is_silent(static_cast<SimFault>(i));
    if (one_in(3) && allowed) {
      rates[i] = worst_rate(static_cast<SimFault>(i)) / static_cast<double>(1 + below(10));
    }
  }
  disk_->set_rates(rates);
  const std::uint64_t used = disk_->used_bytes();
  disk_->set_capacity_bytes(used + (one_in(3) ? below(64 * kKiB) : kRoomBytes));
  const std::uint64_t begin = below(used + 1);
  disk_->set_bad_range(begin, one_in(3) ? begin + below(128 * kKiB) : begin);
}

void SwapSimulation::calm() {
  disk_->set_rates({});
  disk_->set_capacity_bytes(disk_->used_bytes() + kRoomBytes);
  disk_->set_bad_range(0, 0);
  stormy_ = false;
}

// --- Operations
// -----------------------------------------------------------------------------------

void SwapSimulation::operate() {
  const std::uint64_t dice = below(1000);
  if (dice < 330) {
    get();
  } else if (dice < 430) {
    get_into();
  } else if (dice < 560) {
    put();
  } else if (dice < 690) {
    commit();
  } else if (dice < 770) {
    begin_update();
  } else if (dice < 800) {
    prefetch();
  } else if (dice < 980) {
    end_lease();
  } else if (dice < 990) {
    forget();
  } else if (dice < 993) {
    rename();
  } else if (dice < 996) {
    count("plan", engine_->plan());
  } else {
    (void)flush();
  }
}

SwapSimulation::TensorPtr SwapSimulation::choose() {
  // Mostly in turn, as training does, so that there is something to foretell.
  next_in_turn_ = (next_in_turn_ + 1) % tensors_.size();
  return one_in(4) ? tensors_[below(tensors_.size())] : tensors_[next_in_turn_];
}

void SwapSimulation::get() {
  const TensorPtr tensor = choose();
  if (gets_.size() >= kGetsMax || tensor->updating) {
    return;
  }
  ++tensor->readers;
  gets_.push_back({tensor, engine_->get(tensor->id), tensor->model.readable(), nullptr, 0});
}

std::shared_ptr<std::vector<std::byte>> SwapSimulation::memory_for(std::uint64_t bytes,
                                                                   std::uint64_t& offset) {
  auto memory = std::make_shared<std::vector<std::byte>>(bytes + kBlockBytes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory->data());
  const std::uint64_t aligned = align_up(address, SimDisk::kSectorBytes) - address;
  offset = aligned + (one_in(2) ? 0 : 1 + below(100));
  return memory;
}

void SwapSimulation::get_into() {
  const TensorPtr tensor = choose();
  if (gets_.size() >= kGetsMax || tensor->updating) {
    return;
  }
  ++tensor->readers;
  Get get{tensor, {}, tensor->model.readable(), nullptr, 0};
  get.target = memory_for(tensor->bytes, get.target_offset);
  get.ticket = engine_->get_into(tensor->id,
                                 std::span(*get.target).subspan(get.target_offset, tensor->bytes));
  gets_.push_back(std::move(get));
}

/// A new content is on its way: gets that are waiting may see it.
void SwapSimulation::begun(const TensorPtr& tensor, TensorModel::Version version) {
  for (Get& get : gets_) {
    if (get.tensor == tensor) {
      get.allowed.insert(version);
    }
  }
}

void SwapSimulation::put() {
  const TensorPtr tensor = choose();
  if (puts_.size() < kPutsMax && !tensor->updating) {
    begin_put(tensor);
  }
}

void SwapSimulation::begin_put(const TensorPtr& tensor) {
  Put put{tensor, {}, tensor->model.begin_version(), nullptr, 0};
  put.source = memory_for(tensor->bytes, put.source_offset);
  const auto source = std::span(*put.source).subspan(put.source_offset, tensor->bytes);
  TensorContent(tensor->key, put.version).fill(source);
  begun(tensor, put.version);
  tensor->model.put_begun(put.version);
  put.ticket = engine_->put(tensor->id, source);
  puts_.push_back(std::move(put));
}

void SwapSimulation::commit() {
  const TensorPtr tensor = choose();
  // A resident is renewed in place, under the eyes of whoever still waits for it.
  if (tensor->updating || tensor->readers > 0) {
    return;
  }
  Result<Lease> lease = engine_->allocate(tensor->id);
  if (lease.has_error()) {
    count("allocate", std::move(lease).error());
    return;
  }
  if (one_in(10)) {
    return;  // never filled, never committed
  }
  const TensorModel::Version version = tensor->model.begin_version();
  TensorContent(tensor->key, version).fill(lease.value().span());
  begun(tensor, version);
  tensor->model.committed(version);
  (void)engine_->commit(lease.value());
}

void SwapSimulation::begin_update() {
  if (updates_.size() >= kUpdatesMax || one_in(3)) {
    end_update();
    return;
  }
  const TensorPtr tensor = choose();
  if (tensor->updating || tensor->readers > 0 || !tensor->model.has_certain_content()) {
    return;
  }
  tensor->updating = true;
  const TensorModel::Versions allowed = tensor->model.readable();
  Result<Lease> lease = engine_->get(tensor->id, Access::kUpdate).lease();
  settle();
  if (lease.has_error()) {
    tensor->updating = false;
    count("update", std::move(lease).error());
    return;
  }
  (void)version_in(*tensor, lease.value().span(), allowed);
  const bool in_place = !durable_ && engine_->state(tensor->id).value().resident;
  const TensorModel::Version version = tensor->model.begin_version();
  TensorContent(tensor->key, version).fill(lease.value().span().first((tensor->bytes + 1) / 2));
  updates_.push_back({tensor, std::move(lease).value(), version, in_place});
  if (one_in(2)) {
    end_update();
  }
}

/// One of those that are under way: with a new content, or left in the middle.
void SwapSimulation::end_update() {
  if (updates_.empty()) {
    return;
  }
  const auto chosen = updates_.begin() + static_cast<std::ptrdiff_t>(below(updates_.size()));
  const Update update = std::move(*chosen);
  updates_.erase(chosen);
  Tensor& tensor = *update.tensor;
  tensor.updating = false;
  const bool left = one_in(4);
  if (left && !update.in_place) {
    return;  // the content must be what it was
  }
  begun(update.tensor, update.version);
  TensorContent(tensor.key, update.version).fill(update.lease.span());
  if (left) {
    tensor.model.put_begun(update.version);  // either content
    return;
  }
  tensor.model.committed(update.version);
  (void)engine_->commit(update.lease);
}

void SwapSimulation::prefetch() {
  std::vector<TensorId> wanted;
  for (std::uint64_t i = below(8); i > 0; --i) {
    wanted.push_back(choose()->id);
  }
  engine_->prefetch(wanted);
}

void SwapSimulation::forget() {
  const std::size_t index = below(tensors_.size());
  count("forget", engine_->forget(tensors_[index]->id));
  forgotten_.push_back(tensors_[index]);
  declare_tensor(index);
}

void SwapSimulation::rename() {
  const TensorPtr tensor = choose();
  tensor->name += "'";
  tensor->names.insert(tensor->name);
  count("rename", engine_->rename(tensor->id, tensor->name));
}

/// What succeeds here survives whatever comes.
Result<void> SwapSimulation::flush() {
  const Result<void> flushed = engine_->flush();
  settle();
  count("flush", flushed);
  if (flushed.has_value()) {
    note_flushed();
  }
  return flushed;
}

void SwapSimulation::note_flushed() {
  forgotten_.clear();
  for (const TensorPtr& tensor : tensors_) {
    tensor->names = {tensor->name};
    tensor->model.flushed();
  }
}

void SwapSimulation::end_lease() {
  if (held_.empty()) {
    return;
  }
  const std::size_t index = below(held_.size());
  check_held(held_[index]);
  --held_[index].tensor->readers;
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
}

// --- Checks
// ---------------------------------------------------------------------------------------

void SwapSimulation::settle() {
  for (std::size_t i = 0; i < puts_.size();) {
    if (!puts_[i].ticket.done()) {
      ++i;
      continue;
    }
    const Result<void> ended = puts_[i].ticket.wait();
    count("put", ended);
    // Where a tensor may stay in RAM, the content that its drive refused is there all the same.
    const bool is_content =
        ended.has_value() ||
        ended.error().message.find("its content is still in memory") != std::string::npos;
    puts_[i].tensor->model.put_ended(puts_[i].version, is_content);
    puts_.erase(puts_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (std::size_t i = 0; i < gets_.size();) {
    if (!gets_[i].ticket.done()) {
      ++i;
      continue;
    }
    Get ended = std::move(gets_[i]);
    gets_.erase(gets_.begin() + static_cast<std::ptrdiff_t>(i));
    finish_get(ended);
  }
  while (held_.size() > kHeldMax) {
    end_lease();
  }
}

void SwapSimulation::finish_get(Get& get) {
  const Result<void> ended = get.ticket.wait();
  count(get.target ? "get_into" : "get", ended);
  if (ended.has_error()) {
    --get.tensor->readers;
    return;
  }
  if (get.target) {
    --get.tensor->readers;
    (void)version_in(*get.tensor,
                     std::span(*get.target).subspan(get.target_offset, get.tensor->bytes),
                     get.allowed);
    return;
  }
  Result<Lease> lease = get.ticket.lease();
  if (lease.has_error()) {
    violate(fmt::format("a get that succeeded has no lease: {}", lease.error().message));
    return;
  }
  const TensorModel::Version version = version_in(*get.tensor, lease.value().span(), get.allowed);
  held_.push_back({get.tensor, std::move(lease).value(), version});
}

/// Which of the allowed contents this is; a violation if it is none.
TensorModel::Version SwapSimulation::version_in(const Tensor& tensor,
                                                std::span<const std::byte> bytes,
                                                const TensorModel::Versions& allowed) {
  ++report_.contents_checked;
  report_.bytes_checked += bytes.size();
  for (const TensorModel::Version version : allowed) {
    if (TensorContent(tensor.key, version).equals(bytes)) {
      return version;
    }
  }
  for (TensorModel::Version version = tensor.model.newest(); version > 0; --version) {
    if (TensorContent(tensor.key, version).equals(bytes)) {
      violate(fmt::format("tensor '{}' ({} bytes) has content {} where only {} may be", tensor.name,
                          tensor.bytes, version, fmt::join(allowed, ", ")));
      return version;
    }
  }
  violate(fmt::format("tensor '{}' ({} bytes) has a content that it never had, {} may be",
                      tensor.name, tensor.bytes, fmt::join(allowed, ", ")));
  return 0;
}

void SwapSimulation::check_held(const Held& held) {
  ++report_.contents_checked;
  report_.bytes_checked += held.lease.bytes();
  if (!TensorContent(held.tensor->key, held.version).equals(held.lease.span())) {
    violate(fmt::format("the content under a lease of tensor '{}' has changed", held.tensor->name));
  }
}

/// With the faults gone, everything must be there; unless the power goes just now.
void SwapSimulation::verify_all() {
  calm();
  while (!gets_.empty() || !puts_.empty()) {
    (void)(gets_.empty() ? puts_.front().ticket : gets_.front().ticket).wait();
    settle();
  }
  while (!updates_.empty()) {
    end_update();
  }
  // The first tells of what failed in the storm. What a failed sync has made doubtful has to be
  // put again.
  if (!flush() && !flush()) {
    put_all();
    const Result<void> flushed = flush();
    if (flushed.has_error() && !disk_->power_is_cut()) {
      violate(fmt::format("a drive without faults cannot be flushed: {}", flushed.error().message));
    }
  }
  for (const TensorPtr& tensor : tensors_) {
    (void)verify(*tensor, tensor->model.readable());
  }
}

/// Its version; nothing if there is none, or the power has gone.
std::optional<TensorModel::Version> SwapSimulation::verify(const Tensor& tensor,
                                                           const TensorModel::Versions& allowed) {
  Result<Lease> lease = engine_->get(tensor.id).lease();
  if (lease.has_error()) {  // of a read ahead that had begun in the storm
    lease = engine_->get(tensor.id).lease();
  }
  if (lease.has_value()) {
    return version_in(tensor, lease.value().span(), allowed);
  }
  if (!allowed.empty() && !disk_->power_is_cut()) {
    violate(fmt::format("tensor '{}' is lost: {}", tensor.name, lease.error().message));
  }
  return std::nullopt;
}

void SwapSimulation::put_all() {
  for (const TensorPtr& tensor : tensors_) {
    begin_put(tensor);
    (void)puts_.back().ticket.wait();
    settle();
  }
}

void SwapSimulation::violate(const std::string& sentence) {
  if (report_.violation.empty()) {
    report_.violation =
        fmt::format("seed {}, operation {}: {}", options_.seed, report_.operations + 1, sentence);
  }
}

void SwapSimulation::count(const char* operation, const Result<void>& result) {
  if (result.has_value()) {
    ++report_.outcomes[fmt::format("{}: done", operation)];
    return;
  }
  ++report_.errors_told;
  const Error& error = result.error();
  ++report_.outcomes[fmt::format("{}: {}", operation, error.code.message())];
}

}  // namespace penstock
