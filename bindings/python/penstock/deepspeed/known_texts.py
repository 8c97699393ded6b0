"""The versions of DeepSpeed that penstock was tested with, and the texts of the functions that it builds on.

Written by tests/deepspeed/known_texts. Keys are `file:Class.function`; values map a hash of the text, white space
folded, to the tested versions that have it.
"""

TESTED_VERSIONS = (
    "0.16.9",
    "0.17.6",
    "0.18.0",
    "0.18.3",
    "0.18.9",
    "0.19.4",
    "0.19.5",
    "0.19.8",
)
KNOWN_TEXTS: dict[str, dict[str, tuple[str, ...]]] = {
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._configure_tensor_swapping": {
        "7db7cc5702d005dc": ("0.16.9",),
        "47d2cd2c94651c9e": ("0.17.6", "0.18.0"),
        "da38777dea352b3c": ("0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.initialize_optimizer_states": {
        "55803da6a0bf1c00": ("0.16.9", "0.17.6", "0.18.0", "0.18.3"),
        "6fe5437a26aa2e60": ("0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._swappable_optimizer_subgroup": {
        "8632c1385de6e666": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._offload_grad_partition_at_boundary": {
        "f8d27125e66814a2": ("0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._constant_buffered_norm2": {
        "8c1f8467c668d9f7": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5"),
        "209c6770cdc88c34": ("0.19.8",),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._partitioned_params_swap_out": {
        "ce165d512539e234": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._move_to_flat_buffer": {
        "84816e1f0432a40e": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._prepare_sub_group": {
        "639a4b95dd13bd12": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.unscale_and_clip_grads": {
        "29d2398e7d3e9f61": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._optimizer_step": {
        "f0057fdd2917ab26": ("0.16.9",),
        "49e359757a43b24d": ("0.17.6", "0.18.0"),
        "dd05e948971bbce7": ("0.18.3", "0.18.9", "0.19.4", "0.19.5"),
        "0a1572b61ac78b97": ("0.19.8",),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._reassign_or_swap_out_partitioned_parameters": {
        "fa765a37db82746b": ("0.16.9", "0.17.6", "0.18.0"),
        "f34f30c7328dbf80": ("0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.reduce_independent_p_g_buckets_and_remove_grads": {
        "8371271fcd5fdbcb": ("0.16.9",),
        "d99ec8770c2b6c53": ("0.17.6", "0.18.0", "0.18.3", "0.18.9"),
        "d14b1ae973dd9e4f": ("0.19.4", "0.19.5"),
        "d9930b1c7e532608": ("0.19.8",),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.partition_grads": {
        "73a81ce8a89032a5": ("0.16.9",),
        "f34456867df1f48c": ("0.17.6", "0.18.0"),
        "2053f09520fed2dc": ("0.18.3", "0.18.9"),
        "302fbda4a5e56595": ("0.19.4",),
        "2a6e85121b2f5b8c": ("0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.step": {
        "c994df55b45bde4c": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5"),
        "ae4e4c1bc90380ee": ("0.19.8",),
    },
    "runtime/engine.py:DeepSpeedEngine.save_checkpoint": {
        "0878a3e0c7b780ee": ("0.16.9",),
        "d82ef083cb96a4cd": ("0.17.6",),
        "3481d5b567be71bb": ("0.18.0", "0.18.3"),
        "eca2de9a2619dbc4": ("0.18.9",),
        "b17874cd43774a5d": ("0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/engine.py:DeepSpeedEngine._get_param_fragment_func": {
        "4e71cf3fe69a1aa9": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/engine.py:DeepSpeedEngine.load_checkpoint": {
        "78c3d83c1d918ae5": ("0.16.9", "0.17.6"),
        "f40b0633a6ecd9c7": ("0.18.0", "0.18.3", "0.18.9"),
        "77a6ddc60cfe48d7": ("0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._rigid_state_dict": {
        "d9f156ab161dac30": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9"),
        "c32149cb677df675": ("0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._rigid_load_state_dict": {
        "5b84976965ce9cc1": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9"),
        "3c49ae2fabce7018": ("0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._restore_from_bit16_weights": {
        "5c21ec6c6e50575f": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/partition_parameters.py:Init._ensure_availability_of_partitioned_params": {
        "350379730ff8296b": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/partition_parameters.py:Init._partition_param": {
        "d22b7038f5b00d65": ("0.16.9", "0.17.6", "0.18.0", "0.18.3"),
        "3acefa3a971b3160": ("0.18.9",),
        "78ea6564efa89fd0": ("0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/partitioned_param_coordinator.py:PartitionedParameterCoordinator.__prefetch_nvme_param_partitions": {
        "c5163e8b0558f316": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/partitioned_param_coordinator.py:PartitionedParameterCoordinator.__all_gather_params_": {
        "4e61e85a0e88f9cf": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/engine.py:DeepSpeedEngine._load_checkpoint": {
        "3c484cfbe99f2d30": ("0.16.9",),
        "bb1d32065481c1c8": ("0.17.6", "0.18.0", "0.18.3"),
        "cfda84b84cad9611": ("0.18.9",),
        "8b751ed3c6ea55cd": ("0.19.4", "0.19.5"),
        "d360318d7de48d27": ("0.19.8",),
    },
    "runtime/engine.py:DeepSpeedEngine._load_zero_checkpoint": {
        "e88feed2add99968": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.load_hp_checkpoint_state_from_checkpoint_dir_stage3": {
        "a14bed1c4f790b17": ("0.16.9", "0.17.6"),
        "6889bfb9c3d22eb3": ("0.18.0", "0.18.3", "0.18.9"),
        "6df8e6419e695070": ("0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.load_module_checkpoint_state_from_checkpoint_dir_stage3": {
        "3fb307a6ce9dc533": ("0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.load_hp_checkpoint_state": {
        "b80c0de81e489c92": ("0.16.9", "0.17.6"),
        "7e1c694b567e1c6c": ("0.18.0", "0.18.3", "0.18.9"),
        "9aa8fe7f46e5a569": ("0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._swap_in_sub_group_to_flat_buffer": {
        "d31aec15ed60ad59": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions": {
        "72594dc9ef1a35af": ("0.16.9", "0.17.6"),
        "ddef4872f325ad69": ("0.18.0",),
        "7c194687d8715de2": ("0.18.3",),
        "4d0df9eb899b7c6f": ("0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._optimizer_states_and_gradient_swap_in": {
        "18b1b6ca6b560a47": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5"),
        "af7beb352ee5ae53": ("0.19.8",),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._optimizer_states_and_gradient_swap_out": {
        "408a216f38aa82a5": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._release_sub_group": {
        "9d6a35a9e4a1f763": ("0.16.9", "0.17.6", "0.18.0", "0.18.3", "0.18.9", "0.19.4", "0.19.5", "0.19.8"),
    },
}
