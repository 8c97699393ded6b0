"""How the stage-3 optimizer comes by penstock's swappers, and what it leaves to them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock.deepspeed import plain_tensors
from penstock.deepspeed.engine_configuration import configuration_being_built
from penstock.errors import ConfigError


def configure_tensor_swapping(original: Callable[..., None]) -> Callable[..., None]:
    """In the place of the stage-3 optimizer's method: makes no folder, and lets the swapper see gradients."""
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

    @functools.wraps(original)
    def configure(self: Any, offload_optimizer_config: Any, aio_config: Any) -> None:
        self.optimizer_swapper = OptimizerSwapper(
            swap_config=offload_optimizer_config,
            aio_config=aio_config,
            base_folder=str(offload_optimizer_config.nvme_path),
            optimizer=self.optimizer,
            largest_numel=max(self.fp16_partitioned_groups_flat_numel),
            device=self.device,
            dtype=getattr(self, "master_weights_and_grads_dtype", torch.float32),  # before 0.18 always that
            timers=self.timers,
            stage3=self,
            config=configuration_being_built(),
        )
        self.offload_optimizer_fast_init = True  # masters straight from where the weights are

    return configure


def initializing(original: Callable[..., None]) -> Callable[..., None]:
    """Of initialize_optimizer_states, which swaps every sub-group in and out and changes none."""

    @functools.wraps(original)
    def initialize(self: Any) -> None:
        swapper = self.optimizer_swapper
        if swapper is None:
            original(self)
            return
        swapper.is_initializing = True
        try:
            original(self)
        finally:
            swapper.is_initializing = False

    return initialize


def writing_back(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _partitioned_params_swap_out, which copies new values into the partitions that are in memory.

    One that was read ahead and not used is penstock's to drop: what is copied into it would be lost with it. At the
    start, masters have just been made of the partitions.
    """
    from penstock.deepspeed.parameter_swapper import ParameterSwapper

    @functools.wraps(original)
    def swap_out(self: Any, i: int) -> Any:
        if getattr(self.optimizer_swapper, "is_initializing", False) and self._swappable_optimizer_subgroup(i):
            return None
        for param in self.fp16_groups[i]:
            if isinstance(param.nvme_swapper, ParameterSwapper):
                param.nvme_swapper.drop_read_ahead(param)
        return original(self, i)

    return swap_out


def staying_in_memory(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _create_fp16_partitions_with_defragmentation. zero.Init may have been given another configuration than the
    engine: weights that it has swapped out, and that the engine's does not swap, move into memory for good. DeepSpeed
    would make masters of their placeholders.
    """
    from penstock.deepspeed.parameter_swapper import parameter_swapper

    @functools.wraps(original)
    def create(self: Any, fp16_param_groups: Any) -> Any:
        params = [param for group in fp16_param_groups for param in group["params"]]
        for param in params:
            swapper = parameter_swapper(param)
            if swapper is not None and not self.offload_param:
                _move_into_memory(param, swapper)
        try:
            return original(self, fp16_param_groups)
        except AttributeError as error:  # it asks the first parameter's swapper, whatever that is
            if self.params_in_nvme_and_cpu and any(param.nvme_swapper is None for param in params):
                raise ConfigError(
                    "offload_param of this configuration swaps, and that of the zero.Init or the engine which has had "
                    "this model does not: give zero.Init the same configuration (config_dict_or_path=), or build the "
                    "model anew"
                ) from error
            raise

    return create


def _move_into_memory(param: Any, swapper: Any) -> None:
    from deepspeed.accelerator import get_accelerator

    partition = param.ds_tensor
    swapper.drop_read_ahead(param)
    data = plain_tensors.empty(partition.ds_numel, partition.dtype, get_accelerator().current_device_name())
    swapper.swap_into_buffer(param, data)
    partition.data = data
    partition.status = type(partition.status).AVAILABLE
    partition.final_location = None


def flattening(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _move_to_flat_buffer. In RAM, that buffer gives all trained parameters the configured dtype; where there is no
    buffer, since they are on NVMe, a part that was built in another dtype would keep that.
    """
    from penstock.deepspeed.parameter_swapper import ParameterSwapper

    @functools.wraps(original)
    def move(self: Any, param_list: Any, flat_buffer: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, param_list, flat_buffer, *args, **kwargs)
        for param in param_list:
            if flat_buffer is not None or param.ds_tensor.dtype == self.dtype:
                continue
            if isinstance(param.nvme_swapper, ParameterSwapper) and param.nvme_swapper.keeps(param):
                param.nvme_swapper.cast(param, self.dtype)
            else:
                param.ds_tensor.data = param.ds_tensor.data.to(self.dtype)
        return result

    return move
