#include "cli/accelerate_keys.h"

#include <array>

#include "bindings/deepspeed/deepspeed_keys.h"

namespace penstock::cli {
namespace {

// The DeepSpeed options of `accelerate launch`.
constexpr auto kDeepSpeed = std::to_array<ConfigKey>({
    {.name = "deepspeed_config_file", .kind = KeyKind::kText},
    {.name = "deepspeed_exclusion_filter"},
    {.name = "deepspeed_hostfile"},
    {.name = "deepspeed_inclusion_filter"},
    {.name = "deepspeed_moe_layer_cls_names"},
    {.name = "deepspeed_multinode_launcher"},
    {.name = "gradient_accumulation_steps", .kind = KeyKind::kCount},
    {.name = "gradient_clipping", .kind = KeyKind::kNumber},
    {.name = "offload_optimizer_device", .kind = KeyKind::kChoice, .choices = kDeviceNames},
    {.name = "offload_optimizer_nvme_path", .kind = KeyKind::kText},
    {.name = "offload_param_device", .kind = KeyKind::kChoice, .choices = kDeviceNames},
    {.name = "offload_param_nvme_path", .kind = KeyKind::kText},
    {.name = "zero3_init_flag"},
    {.name = "zero3_save_16bit_model"},
    {.name = "zero_stage", .kind = KeyKind::kCount, .maximum = kStageMax},
});

constinit const ConfigTable kLaunchTable{kDeepSpeed};

// ClusterConfig, and the two old keys that its process_config() takes.
constexpr auto kTop = std::to_array<ConfigKey>({
    {.name = "command_file"},
    {.name = "commands"},
    {.name = "compute_environment"},
    {.name = "debug"},
    {.name = "deepspeed_config", .kind = KeyKind::kSection, .inside = &kLaunchTable},
    {.name = "distributed_type", .kind = KeyKind::kText},
    {.name = "downcast_bf16"},
    {.name = "dynamo_backend"},
    {.name = "dynamo_config"},
    {.name = "enable_cpu_affinity"},
    {.name = "fp16"},
    {.name = "fp8_config"},
    {.name = "fsdp_config"},
    {.name = "gpu_ids"},
    {.name = "machine_rank"},
    {.name = "main_process_ip"},
    {.name = "main_process_port"},
    {.name = "main_training_function"},
    {.name = "megatron_lm_config"},
    {.name = "mixed_precision"},
    {.name = "mpirun_config"},
    {.name = "num_machines", .kind = KeyKind::kCount},
    {.name = "num_processes", .kind = KeyKind::kCount},
    {.name = "parallelism_config"},
    {.name = "rdzv_backend"},
    {.name = "same_network"},
    {.name = "tpu_env"},
    {.name = "tpu_name"},
    {.name = "tpu_use_cluster"},
    {.name = "tpu_use_sudo"},
    {.name = "tpu_vm"},
    {.name = "tpu_zone"},
    {.name = "use_cpu"},
});

// DeepSpeedPlugin._deepspeed_config_checks().
constexpr std::array<std::string_view, 9> kBesideFile{
    "gradient_accumulation_steps", "gradient_clipping",      "zero_stage",
    "offload_optimizer_device",    "offload_param_device",   "offload_param_nvme_path",
    "offload_optimizer_nvme_path", "zero3_save_16bit_model", "mixed_precision"};

}  // namespace

constinit const ConfigTable kAccelerateTable{kTop};

std::span<const std::string_view> accelerate_keys_beside_file() noexcept {
  return kBesideFile;
}

}  // namespace penstock::cli
