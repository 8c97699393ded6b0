"""How the stage-3 optimizer comes by penstock's swapper for its states."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock.deepspeed.engine_configuration import configuration_being_built


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

    return configure
