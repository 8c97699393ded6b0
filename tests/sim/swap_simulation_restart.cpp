// How the engines of a simulation end, and what the next one must find.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "alloc/bytes.h"
#include "io/sim_engine.h"
#include "tests/sim/swap_simulation.h"
#include "tests/sim/tensor_content.h"

namespace penstock {
namespace {

constexpr std::uint64_t kRuledMax = 12 * kKiB;
constexpr std::uint64_t kNames = 22;  // for 20 tensors
constexpr std::array<std::uint64_t, 8> kSizes = {16,        5'000,     4 * kKiB,  8 * kKiB,
                                                 12 * kKiB, 33 * kKiB, 40 * kKiB, 160 * kKiB};

}  // namespace

void SwapSimulation::restart() {
  if (one_in(2) || !durable_) {
    calm();
  }
  close_engine();
  open_engine();
}

void SwapSimulation::begin_durable_half() {
  calm();
  close_engine();
  durable_ = true;
  tensors_.assign(kTensors, std::make_shared<Tensor>());  // nothing of scratch stores lasts
  forgotten_.clear();
  open_engine();
}

void SwapSimulation::open_engine() {
  for (;;) {
    SwapEngineOptions options;
    options.config.integrity = IntegrityLevel::kFull;
    options.config.mode = durable_ ? StoreMode::kDurable : StoreMode::kScratch;
    Budgets budgets;
    budgets.max_pinned_bytes = 4 * kMiB + below(16) * 64 * kKiB;  // the staging chunks, and more
    budgets.ram_bytes = below(2) * below(16) * 16 * kKiB;
    if (one_in(3)) {  // rules, which drive weaker claims out of RAM; by names, which rename()
                      // changes
      options.config.tensors = {{"*0", {}, kRuledMax, Place::kRam, {}},
                                {"*1", {}, kRuledMax, Place::kRam, {}}};
      budgets.ram_bytes = kTensors * kRuledMax;
    }
    budgets.max_pinned_given = true;
    budgets.ram_given = true;
    budgets.quarter_bytes = 64 * kMiB;
    options.budgets = budgets;
    options.io.block_bytes = static_cast<std::uint32_t>((1 + below(8)) * 4 * kKiB);
    options.io.depth = static_cast<std::uint32_t>(1 + below(16));
    options.warn = [](const Warning&) {};
    options.file_system = disk_.get();
    options.pageable = memory_;
    options.make_queue = [this](const IoEngineOptions& io) -> Result<std::unique_ptr<IoQueue>> {
      return IoQueue::start_for_caller(make_sim_engine(*disk_, io));
    };
    engine_ = std::move(SwapEngine::open(std::move(options))).value();
    if (open_store() || !report_.violation.empty()) {
      return;
    }
    end_engine();
  }
}

/// False where the power went meanwhile.
bool SwapSimulation::open_store() {
  if (!durable_) {
    space_ = engine_->open_namespace("sim", {{"/sim", std::nullopt, std::nullopt}}).value();
    for (std::size_t i = 0; i < kTensors; ++i) {
      declare_tensor(i);
    }
    return true;
  }
  if (one_in(4)) {
    disk_->cut_power_after(below(60));
  }
  const std::vector<PathConfig> paths{{"/store", std::nullopt, std::nullopt}};
  change_weather(false);
  Result<NamespaceId> opened = engine_->open_namespace("sim", paths);
  calm();
  if (opened.has_error() && !disk_->power_is_cut()) {
    count("open", std::move(opened).error());
    opened = engine_->open_namespace("sim", paths);
  }
  if (disk_->power_is_cut()) {
    return false;
  }
  if (opened.has_error()) {
    violate(fmt::format("the store does not open: {}", opened.error().message));
    for (std::size_t i = 0; i < kTensors; ++i) {
      tensors_[i] = std::make_shared<Tensor>();
    }
    return true;
  }
  space_ = *opened;
  return resume();
}

/// Every tensor that was flushed must be there, once, and no unknown one.
bool SwapSimulation::resume() {
  std::set<TensorPtr> found;
  for (const TensorId tensor : engine_->tensors(space_)) {
    if (!resume(engine_->info(tensor).value()->name, tensor, found)) {
      return false;
    }
  }
  for (const TensorPtr& tensor : forgotten_) {
    if (found.contains(tensor)) {
      count("forget again", engine_->forget(tensor->id));
    }
  }
  for (std::size_t i = 0; i < kTensors; ++i) {
    if (found.contains(tensors_[i])) {
      continue;
    }
    if (tensors_[i]->model.must_survive()) {
      violate(fmt::format("tensor '{}' has not survived", tensors_[i]->name));
    }
    declare_tensor(i);
  }
  return true;
}

/// Names are used again and again, so it is the content that says which tensor this is.
bool SwapSimulation::resume(const std::string& name, TensorId id, std::set<TensorPtr>& found) {
  const Result<Lease> lease = read(id);
  if (lease.has_error()) {
    if (!disk_->power_is_cut()) {
      violate(fmt::format("after a restart '{}' is lost: {}", name, lease.error().message));
    }
    return false;
  }
  const TensorPtr tensor = owner_of(lease->span());
  if (!tensor) {
    violate(fmt::format("after a restart '{}' has a content of no tensor", name));
    return false;
  }
  if (!tensor->names.contains(name)) {
    violate(fmt::format("after a restart '{}' is tensor '{}'", name, tensor->name));
    return false;
  }
  if (!found.insert(tensor).second) {
    violate(fmt::format("tensor '{}' is there twice, also as '{}'", tensor->name, name));
    return false;
  }
  const auto version = version_in(*tensor, lease->span(), tensor->model.survivors());
  tensor->name = name;
  tensor->names = {name};
  tensor->id = id;
  tensor->model.restarted_with(version);
  return true;
}

SwapSimulation::TensorPtr SwapSimulation::owner_of(std::span<const std::byte> bytes) const {
  for (const auto* tensors : {&tensors_, &forgotten_}) {
    for (const TensorPtr& tensor : *tensors) {
      if (tensor->bytes != bytes.size()) {
        continue;
      }
      for (TensorModel::Version version = tensor->model.newest(); version > 0; --version) {
        if (TensorContent(tensor->key, version).equals(bytes)) {
          return tensor;
        }
      }
    }
  }
  return nullptr;
}

/// Leases outlive the engine: they are looked at once more when it is gone.
void SwapSimulation::close_engine() {
  while (!updates_.empty()) {
    end_update();
  }
  const Result<void> closed = engine_->close();
  count("close", closed);
  settle();
  if (durable_ && closed.has_value()) {
    note_flushed();
  }
  end_engine();
}

void SwapSimulation::end_engine() {
  (void)engine_->close();
  settle();
  engine_.reset();
  while (!held_.empty()) {
    end_lease();
  }
  if (disk_->power_is_cut()) {
    disk_->restore_power();
  }
}

void SwapSimulation::declare_tensor(std::size_t index) {
  auto tensor = std::make_shared<Tensor>();
  tensor->key = next_key_++;
  tensor->bytes = kSizes[below(kSizes.size())];
  tensors_[index] = tensor;
  tensor->name = free_name();
  tensor->names = {tensor->name};
  tensor->id =
      engine_->declare(space_, {tensor->name, DType::kU8, {tensor->bytes}, Role::kParam}).value();
}

/// Of few, so that a tensor often takes a name that another has just left.
std::string SwapSimulation::free_name() {
  for (;;) {
    std::string name = fmt::format("t{}", below(kNames));
    const auto has_it = [&name](const TensorPtr& tensor) { return tensor->name == name; };
    if (std::ranges::none_of(tensors_, has_it)) {
      return name;
    }
  }
}

}  // namespace penstock
