#include "tests/sim/swap_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "io/sim_engine.h"
#include "tests/sim/tensor_content.h"

namespace penstock {
namespace {

constexpr std::size_t kGetsMax = 12;
constexpr std::size_t kPutsMax = 12;
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
  tensors_.assign(kTensors, std::make_shared<Tensor>());
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

/// Without the silent faults where a manifest is read: a reader that gets a wrong one without an
/// error cannot know a better one.
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
  } else if (dice < 984) {
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
  // Mostly in turn, as training does, so that there is something to predict.
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
  // A resident is rewritten in place, and a get() that still waits for it would see that.
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

/// Often, another tensor takes the name that one has just left.
void SwapSimulation::rename() {
  std::string name = free_name();
  for (int i = one_in(2) ? 2 : 1; i > 0; --i) {
    const TensorPtr tensor = choose();
    std::swap(tensor->name, name);
    tensor->names.insert(tensor->name);
    count("rename", engine_->rename(tensor->id, tensor->name));
  }
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

}  // namespace penstock
