// How the engines of a simulation end, and what the next one must find.

#include <fmt/format.h>

#include <array>
#include <utility>

#include "alloc/bytes.h"
#include "io/sim_engine.h"
#include "tests/sim/swap_simulation.h"

namespace penstock {
namespace {

constexpr std::uint64_t kRuledMax = 12 * kKiB;
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

/// Every tensor that was flushed must be there, and no unknown one.
bool SwapSimulation::resume() {
  std::map<std::string, TensorId> found;
  for (const TensorId tensor : engine_->tensors(space_)) {
    found.emplace(engine_->info(tensor).value()->name, tensor);
  }
  for (std::size_t i = 0; i < kTensors; ++i) {
    if (!resume(i, found)) {
      return false;
    }
  }
  for (const TensorPtr& tensor : forgotten_) {
    for (const std::string& name : tensor->names) {
      if (const auto back = found.find(name); back != found.end()) {
        count("forget again", engine_->forget(back->second));
        found.erase(back);
      }
    }
  }
  for (const auto& [name, id] : found) {
    violate(fmt::format("the store has a tensor '{}' that was never there, or is long gone", name));
  }
  return true;
}

bool SwapSimulation::resume(std::size_t index, std::map<std::string, TensorId>& found) {
  Tensor& tensor = *tensors_[index];
  std::size_t times = 0;
  for (const std::string& name : tensor.names) {
    if (const auto there = found.find(name); there != found.end()) {
      tensor.name = name;
      tensor.id = there->second;
      found.erase(there);
      ++times;
    }
  }
  if (times > 1) {
    violate(fmt::format("tensor '{}' is there under {} names", tensor.name, times));
  }
  if (times == 0) {
    if (tensor.model.must_survive()) {
      violate(fmt::format("tensor '{}' has not survived", tensor.name));
    }
    declare_tensor(index);
    return true;
  }
  const auto version = verify(tensor, tensor.model.survivors());
  if (version) {
    tensor.names = {tensor.name};
    tensor.model.restarted_with(*version);
  }
  return version.has_value();
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
  tensor->name = fmt::format("t{}", tensor->key);
  tensor->names = {tensor->name};
  tensor->id =
      engine_->declare(space_, {tensor->name, DType::kU8, {tensor->bytes}, Role::kParam}).value();
  tensors_[index] = std::move(tensor);
}

}  // namespace penstock
