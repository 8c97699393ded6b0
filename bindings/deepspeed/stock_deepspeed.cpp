#include "bindings/deepspeed/stock_deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "swap/plan/saturating.h"

namespace penstock {
namespace {

// DeepSpeed's AIO_ALIGNED_BYTES, per thread of a request.
constexpr std::uint64_t kAlignedBytes = 1024;

std::uint64_t padded_elements(const TrainingSetup& setup, std::uint64_t elements,
                              std::uint64_t element_bytes) {
  const std::uint64_t threads =
      std::clamp<std::uint64_t>(setup.config.deepspeed.aio.intra_op_parallelism, 1, 1024);
  const std::uint64_t unit = std::max<std::uint64_t>(kAlignedBytes * threads / element_bytes, 1);
  const std::uint64_t rest = elements % unit;
  const bool is_whole = rest == 0 || elements > std::numeric_limits<std::uint64_t>::max() - unit;
  return is_whole ? elements : elements - rest + unit;
}

// A parameter as the swapper sees it: position in the model and elements of this rank.
struct Swapped {
  std::size_t number = 0;
  std::uint64_t elements = 0;
  bool stays = false;  // on the drive, once the model is built
};

std::vector<Swapped> swapped_parameters(const TrainingSetup& setup,
                                        const std::vector<PlanTensor>& tensors) {
  std::vector<Swapped> swapped;
  const std::uint64_t element_bytes = dtype_bytes(setup.config.deepspeed.held_dtype());
  std::size_t number = 0;
  for (std::size_t i = 0; i < setup.inventory.tensors.size(); ++i) {
    const TensorInfo& info = setup.inventory.tensors[i];
    if (info.role != Role::kParam) {
      continue;
    }
    // The swapper reckons with the model's type whatever the parameter's own is.
    const std::uint64_t elements = setup.rank_elements(info);
    if (elements * element_bytes >= setup.swappable_bytes_min()) {
      swapped.push_back({number, elements, tensors[i].swappable});
    }
    ++number;
  }
  return swapped;
}

// get_buffer() asserts on the first parameter that it is asked to hold.
std::optional<std::string> build_error(const OffloadConfig& offload,
                                       const std::vector<Swapped>& swapped) {
  for (const Swapped& param : swapped) {
    if (offload.buffer_count == 0) {
      return fmt::format("No swap buffers to allocate for fp16 param {} of numel = {}",
                         param.number, param.elements);
    }
    if (param.elements > offload.buffer_size) {
      return fmt::format("More elements {} than buffer size {}", param.elements,
                         offload.buffer_size);
    }
  }
  return std::nullopt;
}

// `to pass it would pin 122.6 GB`: as many buffers as parameters, each as large as the largest.
std::uint64_t pool_for_all(const TrainingSetup& setup, const std::vector<Swapped>& swapped,
                           std::uint64_t buffers) {
  std::uint64_t largest = 0;
  for (const Swapped& param : swapped) {
    largest = std::max(largest, param.elements);
  }
  const std::uint64_t element_bytes = dtype_bytes(setup.config.deepspeed.held_dtype());
  return multiply_saturating(padded_elements(setup, largest, element_bytes) * element_bytes,
                             buffers);
}

void warn(StockDeepSpeed& stock, std::string code, std::string key, std::string text) {
  stock.warnings.push_back({std::move(code), std::move(text), std::move(key)});
}

// Neither written nor left to a launcher.
bool lacks(const TrainingSetup& setup, const std::string& key) {
  return !setup.config.origins.contains(key) && !setup.config.automatic.contains(key);
}

// penstock's commands take several. A text is not looked at where nothing goes to NVMe.
void warn_of_several_paths(const std::optional<OffloadConfig>& offload, const std::string& section,
                           StockDeepSpeed& stock) {
  const bool is_read_otherwise =
      offload && (offload->path_form == OffloadConfig::PathForm::kList ||
                  (offload->path_form == OffloadConfig::PathForm::kJoined &&
                   offload->device == OffloadDevice::kNvme));
  if (is_read_otherwise) {
    warn(stock, "nvme-path", fmt::format("zero_optimization.{}.nvme_path", section),
         fmt::format("{}.nvme_path is {}, which training does not take: DeepSpeed refuses a list, "
                     "and takes `a;b` as one directory of that name. Name one path there{}, as "
                     "--emit-config does",
                     section,
                     offload->path_form == OffloadConfig::PathForm::kList ? "a list" : "`a;b`",
                     offload->nvme_paths.size() > 1 ? " and all of them in penstock.paths" : ""));
  }
}

void warn_about_parameters(const TrainingSetup& setup, const OffloadConfig& offload,
                           const std::vector<Swapped>& swapped, StockDeepSpeed& stock) {
  const std::string path_key = "zero_optimization.offload_param.nvme_path";
  if (offload.nvme_paths.empty()) {
    warn(stock, "nvme-path", path_key,
         "offload_param.nvme_path is missing; DeepSpeed raises 'AssertionError: \"nvme_path\" in "
         "DeepSpeed Config cannot be None if remote device is OffloadDeviceEnum.nvme', with "
         "penstock and penstock.paths, too");
    stock.warnings.back().is_misfit = lacks(setup, path_key);
  }
  const auto staying =
      static_cast<std::uint64_t>(std::ranges::count(swapped, true, &Swapped::stays));
  if (staying > offload.buffer_count && offload.buffer_count > 0) {
    warn(stock, "stock-gathering", "zero_optimization.offload_param.buffer_count",
         fmt::format(
             "stock DeepSpeed: whatever gathers all parameters at once (TRL's generation, "
             "GatheredParameters) dies with 'AssertionError: Not enough buffers {} for swapping "
             "{}'; to pass, it would pin {} buffers of the largest parameter, {} bytes. penstock "
             "works in windows",
             offload.buffer_count, staying, staying, pool_for_all(setup, swapped, staying)));
    if (setup.config.deepspeed.stage3_max_reuse_distance > 0) {
      const std::string_view name = setup.config.written_name("stage3_max_reuse_distance");
      warn(stock, "stock-reuse", fmt::format("zero_optimization.{}", name),
           fmt::format(
               "stock DeepSpeed: with {} of {} it keeps parameters in its {} buffers between uses "
               "and dies with 'AssertionError: Not enough buffers 0 for swapping 1' from step 2 "
               "on; 0 avoids that",
               name, setup.config.deepspeed.stage3_max_reuse_distance, offload.buffer_count));
    }
  }
  if (setup.optimizer != OptimizerKind::kNone && offload.max_in_cpu > 0) {
    warn(stock, "max-in-cpu", "zero_optimization.offload_param.max_in_cpu",
         fmt::format("max_in_cpu is {}: DeepSpeed copies trainable parameters of up to so many "
                     "elements to RAM once the model is built, and they do not come from the drive "
                     "any more; 0 keeps them there. Frozen parameters (the base of LoRA) are not "
                     "concerned. {}",
                     offload.max_in_cpu,
                     setup.applies_max_in_cpu()
                         ? "The plan counts them as RAM"
                         : "The plan does not count on it; --trainable all plans with it"));
  }
}

void judge_parameters(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                      StockDeepSpeed& stock) {
  if (!setup.has_config || setup.param_device() != OffloadDevice::kNvme) {
    return;
  }
  const OffloadConfig& offload = *setup.config.deepspeed.offload_param;
  const std::uint64_t element_bytes = dtype_bytes(setup.config.deepspeed.held_dtype());
  stock.pinned_bytes = multiply_saturating(
      multiply_saturating(padded_elements(setup, offload.buffer_size, element_bytes),
                          element_bytes),
      offload.buffer_count);
  const std::vector<Swapped> swapped = swapped_parameters(setup, tensors);
  stock.error = build_error(offload, swapped);
  warn_about_parameters(setup, offload, swapped, stock);
}

// Below these its pool has fewer buffers than Adam has tensors, doubled for each direction
// pipelined.
std::uint64_t optimizer_buffers_min(const OffloadConfig& offload) {
  return offload.pipeline_read && offload.pipeline_write   ? 12
         : offload.pipeline_read || offload.pipeline_write ? 8
                                                           : 4;
}

void judge_optimizer(const TrainingSetup& setup, StockDeepSpeed& stock) {
  const bool is_offloaded = setup.config.deepspeed.offload_optimizer.has_value();
  if (is_offloaded && setup.stage < 3 &&
      setup.config.deepspeed.offload_optimizer->device == OffloadDevice::kNvme) {
    warn(stock, "optimizer-in-ram", "zero_optimization.offload_optimizer.device",
         fmt::format("offload_optimizer.device is nvme, but at ZeRO stage {} DeepSpeed keeps the "
                     "optimizer in RAM without a word; only stage 3 has it on NVMe",
                     setup.stage));
  }
  if (!setup.swaps_optimizer()) {
    return;
  }
  const OffloadConfig& offload = *setup.config.deepspeed.offload_optimizer;
  const std::uint64_t largest = setup.largest_sub_group();
  const std::uint64_t element_bytes = setup.config.deepspeed.master_element_bytes;
  stock.optimizer_pinned_bytes = multiply_saturating(
      padded_elements(setup, largest, element_bytes) * element_bytes, offload.buffer_count);
  if (offload.nvme_paths.empty()) {
    const bool has_paths = !setup.config.penstock.paths.empty();
    const std::string key = "zero_optimization.offload_optimizer.nvme_path";
    warn(stock, "nvme-path", key,
         fmt::format("offload_optimizer.nvme_path is missing; {}",
                     has_paths ? "stock DeepSpeed needs it" : "training refuses the file"));
    stock.warnings.back().is_misfit = !has_paths && lacks(setup, key);
  }
  if (offload.buffer_count < optimizer_buffers_min(offload)) {
    warn(stock, "stock-optimizer-buffers", "zero_optimization.offload_optimizer.buffer_count",
         fmt::format("stock DeepSpeed: offload_optimizer.buffer_count of {} is below the {} that "
                     "Adam needs here; the first step dies",
                     offload.buffer_count, optimizer_buffers_min(offload)));
  }
}

}  // namespace

std::uint64_t optimizer_buffers_needed(const TrainingSetup& setup) {
  return setup.swaps_optimizer() ? optimizer_buffers_min(*setup.config.deepspeed.offload_optimizer)
                                 : 0;
}

StockDeepSpeed predict_stock_deepspeed(const TrainingSetup& setup,
                                       const std::vector<PlanTensor>& tensors) {
  StockDeepSpeed stock;
  warn_of_several_paths(setup.config.deepspeed.offload_param, "offload_param", stock);
  warn_of_several_paths(setup.config.deepspeed.offload_optimizer, "offload_optimizer", stock);
  judge_parameters(setup, tensors, stock);
  judge_optimizer(setup, stock);
  return stock;
}

}  // namespace penstock
