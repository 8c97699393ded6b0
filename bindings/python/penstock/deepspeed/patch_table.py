"""The places in DeepSpeed that penstock patches or relies on: one table, which the contract checks and installation
installs from.

A row with a wrapper is patched: `wrap(original)` is put in the place of the original. A row without one is watched.
The wrappers are functions of the modules that they concern; none of these imports DeepSpeed before it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.deepspeed import (
    adagrad,
    announcement,
    compiled_op,
    engine_configuration,
    gathering,
    gradient_bucket,
    gradient_cycle,
    gradient_norm,
    lifetime,
    naming,
    partial_offload,
    range_access,
    refusals,
    step_agreement,
    stock_swappers,
    streamed_step,
    tensor_swapping,
)
from penstock.deepspeed.checkpoint import loading, saving

PARTITION_PARAMETERS = "runtime/zero/partition_parameters.py"
COORDINATOR = "runtime/zero/partitioned_param_coordinator.py"
STAGE3 = "runtime/zero/stage3.py"
ENGINE = "runtime/engine.py"
STAGE3_OPTIMIZER = "DeepSpeedZeroOptimizer_Stage3"


@dataclass(frozen=True)
class Place:
    """One name in DeepSpeed's source.

    file: below the package, as `runtime/engine.py`.
    owner: the class, "" for a name of the module itself.
    name: the function or attribute, as the source writes it (`__private` too).
    wrap: gives the replacement for the original; None: not patched.
    parameters: what the function has to take, `self` included; None: any.
    required: install() refuses without the place or with other parameters. A place that is not required is an
        optimisation, or one that only some versions have: it is skipped where it is absent, takes other parameters or
        has an unknown text.
    text: whether penstock relies on what the function does inside, so that an unknown text is worth a warning. Known
        texts are in penstock.deepspeed.known_texts.
    """

    file: str
    owner: str
    name: str
    wrap: Callable[[Any], Any] | None = None
    parameters: tuple[str, ...] | None = None
    required: bool = True
    text: bool = True

    @property
    def key(self) -> str:
        """`Class.function`, or the name alone."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def module(self) -> str:
        return "deepspeed." + self.file.removesuffix(".py").replace("/", ".")

    @property
    def attribute(self) -> str:
        """The name as Python stores it: a private one carries its class."""
        private = self.owner and self.name.startswith("__") and not self.name.endswith("__")
        return f"_{self.owner.lstrip('_')}{self.name}" if private else self.name

    def __str__(self) -> str:
        return f"{self.file}: {self.key}"


def _class(file: str, name: str, wrap: Callable[[Any], Any] | None) -> Place:
    return Place(file, "", name, wrap, text=False)


def _of_optimizer(
    name: str,
    wrap: Callable[[Any], Any],
    parameters: tuple[str, ...] | None = None,
    required: bool = True,
    text: bool = True,
) -> Place:
    """A method of the stage-3 optimizer."""
    return Place(STAGE3, STAGE3_OPTIMIZER, name, wrap, parameters, required, text)


def _watched(file: str, owner: str, *names: str) -> tuple[Place, ...]:
    """Functions that are not patched, but whose behaviour penstock builds on."""
    return tuple(Place(file, owner, name, required=False) for name in names)


TABLE: tuple[Place, ...] = (
    # The swappers' names, where they are defined and where they are imported to.
    _class(PARTITION_PARAMETERS, "PartitionedParamStatus", None),
    _class(PARTITION_PARAMETERS, "AsyncPartitionedParameterSwapper", stock_swappers.parameter_swapper),
    _class(
        "runtime/swap_tensor/partitioned_param_swapper.py",
        "AsyncPartitionedParameterSwapper",
        stock_swappers.parameter_swapper,
    ),
    _class(STAGE3, "PartitionedOptimizerSwapper", stock_swappers.optimizer_swapper),
    _class(
        "runtime/swap_tensor/partitioned_optimizer_swapper.py",
        "PartitionedOptimizerSwapper",
        stock_swappers.optimizer_swapper,
    ),
    _class(STAGE3, "PipelinedOptimizerSwapper", stock_swappers.optimizer_swapper),
    _class(
        "runtime/swap_tensor/pipelined_optimizer_swapper.py",
        "PipelinedOptimizerSwapper",
        stock_swappers.optimizer_swapper,
    ),
    # Names of parameters.
    Place(PARTITION_PARAMETERS, "Init", "__init__", naming.named_init, text=False),
    Place(PARTITION_PARAMETERS, "Init", "_post_init_method", naming.named_post_init, ("self", "module"), text=False),
    Place(
        "runtime/zero/parameter_offload.py",
        "DeepSpeedZeRoOffload",
        "_convert_to_zero_parameters",
        naming.named_conversion,
        ("self", "ds_config", "module", "mpu"),
        required=False,
        text=False,
    ),
    # The optimizer's swapper.
    Place(
        ENGINE,
        "DeepSpeedEngine",
        "_configure_zero_optimizer",
        engine_configuration.knowing_configuration,
        ("self", "optimizer"),
        text=False,
    ),
    _of_optimizer(
        "_configure_tensor_swapping",
        tensor_swapping.configure_tensor_swapping,
        ("self", "offload_optimizer_config", "aio_config"),
    ),
    _of_optimizer("initialize_optimizer_states", tensor_swapping.initializing, ("self",), text=False),
    _of_optimizer("initialize_optimizer_states", adagrad.with_swapped_sums, ("self",)),
    _of_optimizer(
        "_swappable_optimizer_subgroup",
        partial_offload.staying_on_device,
        ("self", "sub_group_id"),
    ),
    _of_optimizer(
        "_offload_grad_partition_at_boundary",
        gradient_norm.without_widening,
        ("self", "param", "grad_buffer", "offload_fp32_gradients", "offload_fp32_offsets"),
        required=False,
    ),
    _of_optimizer(
        "_constant_buffered_norm2",
        gradient_norm.in_place,
        ("self", "input", "buffer_size"),
        required=False,
    ),
    _of_optimizer("_partitioned_params_swap_out", tensor_swapping.writing_back, ("self", "i")),
    _of_optimizer("_move_to_flat_buffer", tensor_swapping.flattening, None),
    _of_optimizer(
        "_create_fp16_partitions_with_defragmentation",
        tensor_swapping.staying_in_memory,
        ("self", "fp16_param_groups"),
        text=False,
    ),
    # The step in chunks.
    _class("ops/adam/cpu_adam.py", "CPUAdamBuilder", compiled_op.loading_later),
    _class("ops/lion/cpu_lion.py", "CPULionBuilder", compiled_op.loading_later),
    _class("ops/adagrad/cpu_adagrad.py", "CPUAdagradBuilder", compiled_op.loading_later),
    _of_optimizer("_prepare_sub_group", streamed_step.preparing, ("self", "sub_group_id", "timer_names")),
    _of_optimizer("unscale_and_clip_grads", streamed_step.unscaling, ("self", "sub_group_id", "total_norm")),
    _of_optimizer("_optimizer_step", streamed_step.stepping, ("self", "sub_group_id")),
    _of_optimizer("_reassign_or_swap_out_partitioned_parameters", streamed_step.reassigning, ("self", "sub_group_id")),
    # What a script asks of one parameter.
    _of_optimizer(
        "_get_fp32_opt_state_partition",
        range_access.reading_state,
        ("self", "param", "release_swap_buffers", "optim_state_key"),
        required=False,
        text=False,
    ),
    _of_optimizer(
        "_get_fp32_grad_state_partition",
        range_access.reading_gradient,
        ("self", "param", "release_swap_buffers"),
        required=False,
        text=False,
    ),
    # How many gradients one rank collects.
    _of_optimizer("initialize_optimizer_states", gradient_bucket.bounding, ("self",), text=False),
    _of_optimizer("reduce_independent_p_g_buckets_and_remove_grads", gradient_bucket.filling, ("self", "param")),
    _of_optimizer("independent_gradient_partition_epilogue", gradient_bucket.emptying, ("self",), text=False),
    _of_optimizer("_pre_step", gradient_bucket.emptying, ("self",), text=False),
    # Which gradients a step has.
    _of_optimizer(
        "partition_grads",
        gradient_cycle.reducing,
        ("self", "params_to_release", "grad_partitions"),
    ),
    _of_optimizer("step", step_agreement.stepping, ("self", "closure")),
    _of_optimizer("_post_step", step_agreement.ending, ("self", "timer_names"), text=False),
    _of_optimizer(
        "_apply_muon_to_accumulated_grads", gradient_cycle.applying_muon, ("self",), required=False, text=False
    ),
    _of_optimizer("zero_grad", gradient_cycle.discarding, ("self", "set_to_none"), text=False),
    _of_optimizer("get_fp32_grad_partitions", range_access.reading_all_gradients, ("self",), text=False),
    _of_optimizer("get_fp32_grad_partitions", gradient_cycle.reading, ("self",), text=False),
    _of_optimizer(
        "_get_fp32_grad_state_partition",
        gradient_cycle.reading,
        ("self", "param", "release_swap_buffers"),
        required=False,
        text=False,
    ),
    _of_optimizer(
        "set_fp32_grad_for_param",
        gradient_cycle.setting_one,
        ("self", "value", "param"),
        required=False,
        text=False,
    ),
    _of_optimizer(
        "set_local_grad_for_param",
        gradient_cycle.setting_one,
        ("self", "value", "param"),
        required=False,
        text=False,
    ),
    _of_optimizer(
        "update_fp32_grad_for_param_vectorized",
        gradient_cycle.setting_many,
        ("self", "update_func", "param_list"),
        required=False,
        text=False,
    ),
    # What is on its way when parameters are gathered.
    Place(COORDINATOR, "PartitionedParameterCoordinator", "__init__", gathering.counted, text=False),
    Place(
        COORDINATOR,
        "PartitionedParameterCoordinator",
        "fetch_sub_module",
        gathering.fetching,
        ("self", "current_submodule", "forward"),
        text=False,
    ),
    Place(PARTITION_PARAMETERS, "GatheredParameters", "__enter__", gathering.entering, ("self",), text=False),
    Place(PARTITION_PARAMETERS, "GatheredParameters", "__exit__", gathering.leaving, ("self",), text=False),
    Place(
        "runtime/zero/parameter_offload.py",
        "DeepSpeedZeRoOffload",
        "setup_zero_stage3_hooks",
        gathering.ending_passes,
        ("self",),
        text=False,
    ),
    Place(
        "runtime/zero/parameter_offload.py",
        "",
        "register_external_parameter",
        gathering.registering,
        required=False,
        text=False,
    ),
    # What would outlive an engine.
    _of_optimizer("destroy", lifetime.destroying, ("self",), text=False),
    _of_optimizer("create_reduce_and_remove_grad_hooks", lifetime.hooking, ("self",), text=False),
    Place(
        COORDINATOR,
        "PartitionedParameterCoordinator",
        "__params_to_release",
        lifetime.remembering_itself,
        ("self", "submodule_to_release", "step_id"),
        required=False,
        text=False,
    ),
    Place(
        "runtime/zero/parameter_offload.py",
        "DeepSpeedZeRoOffload",
        "setup_zero_stage3_hooks",
        lifetime.stacking,
        ("self",),
        text=False,
    ),
    Place(ENGINE, "", "debug_extract_module_and_param_names", lifetime.naming, required=False, text=False),
    # What the engine does around them.
    Place(ENGINE, "DeepSpeedEngine", "__init__", refusals.refusing, text=False),
    Place(ENGINE, "DeepSpeedEngine", "__init__", announcement.announcing, text=False),
    Place(ENGINE, "DeepSpeedEngine", "__init__", compiled_op.loading_where_needed, text=False),
    Place(ENGINE, "DeepSpeedEngine", "step", gradient_cycle.counting, text=False),
    # Checkpoints.
    Place(ENGINE, "DeepSpeedEngine", "save_checkpoint", saving.saving),
    Place(ENGINE, "DeepSpeedEngine", "_get_param_fragment_func", saving.fragment, ("self", "param")),
    Place(ENGINE, "DeepSpeedEngine", "load_checkpoint", loading.loading),
    _of_optimizer("_rigid_state_dict", saving.state_dict, ("self",)),
    _of_optimizer(
        "_rigid_load_state_dict",
        loading.load_state_dict,
        ("self", "state_dict", "load_optimizer_states"),
    ),
    _of_optimizer(
        "_load_universal_checkpoint",
        loading.load_universal,
        ("self", "checkpoint_folder", "load_optimizer_states", "load_from_fp32_weights"),
        required=False,
        text=False,
    ),
    _of_optimizer("_restore_from_bit16_weights", loading.masters_from_weights, ("self",)),
    # Not patched.
    *_watched(PARTITION_PARAMETERS, "Init", "_ensure_availability_of_partitioned_params", "_partition_param"),
    *_watched(
        COORDINATOR,
        "PartitionedParameterCoordinator",
        "__prefetch_nvme_param_partitions",
        "__all_gather_params_",
    ),
    *_watched(ENGINE, "DeepSpeedEngine", "_load_checkpoint", "_load_zero_checkpoint"),
    *_watched(
        STAGE3,
        STAGE3_OPTIMIZER,
        "load_hp_checkpoint_state_from_checkpoint_dir_stage3",
        "load_module_checkpoint_state_from_checkpoint_dir_stage3",
        "load_hp_checkpoint_state",
        "_swap_in_sub_group_to_flat_buffer",
        "_create_fp32_partitions",
        "_optimizer_states_and_gradient_swap_in",
        "_optimizer_states_and_gradient_swap_out",
        "_release_sub_group",
    ),
)
