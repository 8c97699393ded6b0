"""How the stage-3 optimizer comes by penstock's swapper for its states."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Any

import torch


def remembering_config(original: Callable[..., None]) -> Callable[..., None]:
    """The stage-3 optimizer is given the DeepSpeed configuration but does not keep it."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        self.penstock_config = _as_mapping(signature.bind(self, *args, **kwargs).arguments["ds_config"])
        original(self, *args, **kwargs)

    return init


def _as_mapping(config: Any) -> dict[str, Any]:
    """DeepSpeed takes a mapping or the path of a JSON file."""
    if isinstance(config, dict):
        return config
    with open(config, encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
        return loaded


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
            config=self.penstock_config,
        )

    return configure
