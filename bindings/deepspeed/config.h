#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/optimizer_state.h"
#include "bindings/deepspeed/plan_warning.h"
#include "bindings/deepspeed/refused_setting.h"
#include "swap/plan/engine_config.h"
#include "swap/plan/inventory.h"
#include "swap/update/state_format.h"

namespace penstock {

enum class OffloadDevice : std::uint8_t { kNone, kCpu, kNvme };

/// `zero_optimization.offload_param` / `offload_optimizer`, DeepSpeed's names and defaults.
struct OffloadConfig {
  OffloadDevice device = OffloadDevice::kNone;
  std::vector<std::string> nvme_paths;  ///< one; several where penstock reads the file alone
  /// `nvme_path`: a path or missing, `a;b`, or a list, as long as that may be.
  enum class PathForm : std::uint8_t { kPath, kJoined, kList } path_form = PathForm::kPath;
  bool pin_memory = true;
  std::uint64_t buffer_count = 5;            ///< 4 for the optimizer
  std::uint64_t buffer_size = 100'000'000;   ///< elements; parameters only
  std::uint64_t max_in_cpu = 1'000'000'000;  ///< elements; parameters only
  bool pipeline_read = false;
  bool pipeline_write = false;
  bool fast_init = false;
  double ratio = 1.0;
};

struct AioConfig {
  std::uint64_t block_size = 1048576;
  std::uint64_t queue_depth = 8;
  std::uint64_t intra_op_parallelism = 1;
  bool single_submit = false;
  bool overlap_events = true;
  bool use_gds = false;
};

/// What of DeepSpeed's file bears on swapping. Absent keys and "auto" have DeepSpeed's defaults.
struct DeepSpeedConfig {
  bool is_given = false;  ///< the file has any key beside `penstock` and `$schema`
  std::uint32_t stage = 0;
  std::optional<DType> model_dtype;     ///< bf16/fp16 blocks that are enabled; nothing: fp32
  std::optional<DType> gradient_dtype;  ///< data_types.grad_accum_dtype; nothing: the held type
  // Of a step; 0: not given, or "auto". Two of them make the third.
  std::uint64_t gradient_accumulation_steps = 0;
  std::uint64_t train_batch_size = 0;
  std::uint64_t micro_batch_size = 0;
  bool has_batch_size = false;  ///< one of both sizes stands there, be it as "auto"
  std::string optimizer_type;   ///< optimizer.type as written; empty: the script brings one
  bool has_cpu_adam = true;     ///< offloaded states are fp32 and stepped by DeepSpeedCPUAdam
  bool is_elementwise = true;   ///< by it, or by another optimizer that can be stepped in chunks
  std::vector<OptimizerState> optimizer_states = adam_states();  ///< of that type
  std::uint64_t master_element_bytes = 4;  ///< 2 under `…_master_weights_and_grads`
  std::string narrow_masters_key;          ///< that flag's, dotted, where it is on: DeepSpeed takes
  bool steps_narrow_masters = true;        ///< it with this file's optimizer, offloaded,
  bool keeps_narrow_states = false;        ///< and where none is offloaded
  std::uint64_t state_element_bytes = 4;   ///< of the optimizer's states
  std::vector<RefusedSetting> refused;     ///< where the training swaps
  std::optional<OffloadConfig> offload_param;
  std::optional<OffloadConfig> offload_optimizer;
  AioConfig aio;
  std::uint64_t sub_group_size = 1'000'000'000;
  std::uint64_t reduce_bucket_size = 500'000'000;
  std::uint64_t stage3_prefetch_bucket_size = 50'000'000;
  std::uint64_t stage3_max_live_parameters = 1'000'000'000;
  std::uint64_t stage3_max_reuse_distance = 1'000'000'000;
  std::uint64_t stage3_param_persistence_threshold = 100'000;

  /// The type that DeepSpeed holds parameters in under this file.
  DType held_dtype() const noexcept { return model_dtype.value_or(DType::kF32); }
};

struct Config {
  DeepSpeedConfig deepspeed;
  EngineConfig penstock;  ///< the `penstock` block alone; see engine_config()
  StateFormats states;    ///< of the optimizer: optimizer_states, fp32_states
  /// Where a value that is not the default came from, by dotted key: a file's name or
  /// PENSTOCK_ENGINE.
  std::map<std::string, std::string> origins;
  /// Dotted keys of DeepSpeed's that are "auto": see settle_automatic_values().
  std::set<std::string> automatic;
  /// Keys that DeepSpeed does not know; what stands for "auto" in a plan.
  std::vector<PlanWarning> warnings;

  /// `penstock.paths`, else the nvme_path of whatever is on NVMe: parameters', then the optimizer's
  /// where it is another one.
  std::vector<PathConfig> paths() const;
  /// Whether parameters lie on the first of paths() and the optimizer's states on the second.
  bool has_path_for_each() const;
  /// What the file calls that key of `zero_optimization`: `alias`, or DeepSpeed's name of the
  /// field, which lacks `stage3_`.
  std::string_view written_name(std::string_view alias) const;
  /// What the whole file says to an engine: its block, paths(), and what follows from the keys of
  /// buffers (`offload_param`) and from `aio.use_gds`.
  EngineConfig engine_config() const;
};

/// A DeepSpeed JSON (any file with none of its keys is valid: all defaults). `origin` names it in
/// errors. Environment (PENSTOCK_ENGINE) is applied on top. Errors: Fault::kConfiguration with the
/// dotted key, what was found, what is allowed, and for an unknown key of ours the nearest name.
Result<Config> parse_config(std::string_view json, const std::string& origin);
Result<Config> load_config(const std::string& path);

}  // namespace penstock
