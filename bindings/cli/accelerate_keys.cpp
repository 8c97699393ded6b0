#include "bindings/cli/accelerate_keys.h"

#include <array>

namespace penstock::cli {
namespace {

// ClusterConfig, and the two old keys that its process_config() takes.
constexpr std::array<std::string_view, 33> kTop{"command_file",
                                                "commands",
                                                "compute_environment",
                                                "debug",
                                                "deepspeed_config",
                                                "distributed_type",
                                                "downcast_bf16",
                                                "dynamo_backend",
                                                "dynamo_config",
                                                "enable_cpu_affinity",
                                                "fp16",
                                                "fp8_config",
                                                "fsdp_config",
                                                "gpu_ids",
                                                "machine_rank",
                                                "main_process_ip",
                                                "main_process_port",
                                                "main_training_function",
                                                "megatron_lm_config",
                                                "mixed_precision",
                                                "mpirun_config",
                                                "num_machines",
                                                "num_processes",
                                                "parallelism_config",
                                                "rdzv_backend",
                                                "same_network",
                                                "tpu_env",
                                                "tpu_name",
                                                "tpu_use_cluster",
                                                "tpu_use_sudo",
                                                "tpu_vm",
                                                "tpu_zone",
                                                "use_cpu"};

// The DeepSpeed options of `accelerate launch`.
constexpr std::array<std::string_view, 15> kDeepSpeed{"deepspeed_config_file",
                                                      "deepspeed_exclusion_filter",
                                                      "deepspeed_hostfile",
                                                      "deepspeed_inclusion_filter",
                                                      "deepspeed_moe_layer_cls_names",
                                                      "deepspeed_multinode_launcher",
                                                      "gradient_accumulation_steps",
                                                      "gradient_clipping",
                                                      "offload_optimizer_device",
                                                      "offload_optimizer_nvme_path",
                                                      "offload_param_device",
                                                      "offload_param_nvme_path",
                                                      "zero3_init_flag",
                                                      "zero3_save_16bit_model",
                                                      "zero_stage"};

// DeepSpeedPlugin._deepspeed_config_checks().
constexpr std::array<std::string_view, 9> kBesideFile{
    "gradient_accumulation_steps", "gradient_clipping",      "zero_stage",
    "offload_optimizer_device",    "offload_param_device",   "offload_param_nvme_path",
    "offload_optimizer_nvme_path", "zero3_save_16bit_model", "mixed_precision"};

}  // namespace

std::span<const std::string_view> accelerate_keys() noexcept {
  return kTop;
}

std::span<const std::string_view> accelerate_deepspeed_keys() noexcept {
  return kDeepSpeed;
}

std::span<const std::string_view> accelerate_keys_beside_file() noexcept {
  return kBesideFile;
}

}  // namespace penstock::cli
