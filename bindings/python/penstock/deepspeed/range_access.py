"""What a script asks of one parameter: its range of the sub-group's master, state or gradient, without the rest of it.

A sub-group may have a billion elements. What the script writes goes through whole states still.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def reading_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _get_fp32_opt_state_partition: of a master, or of the state that is named."""

    @functools.wraps(original)
    def get(self: Any, param: Any, release_swap_buffers: bool, optim_state_key: str | None = None) -> Any:
        def read(swapper: Any, master: torch.Tensor, begin: int, numel: int) -> torch.Tensor | None:
            result: torch.Tensor | None = swapper.read_state(master, optim_state_key, begin, numel)
            return result

        found = _read(self, param, read) if release_swap_buffers else None
        return original(self, param, release_swap_buffers, optim_state_key) if found is None else found

    return get


def reading_gradient(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _get_fp32_grad_state_partition."""

    @functools.wraps(original)
    def get(self: Any, param: Any, release_swap_buffers: bool) -> Any:
        def read(swapper: Any, master: torch.Tensor, begin: int, numel: int) -> torch.Tensor | None:
            result: torch.Tensor | None = swapper.read_gradient(master, begin, numel)
            return result

        found = _read(self, param, read) if release_swap_buffers else None
        return original(self, param, release_swap_buffers) if found is None else found

    return get


def _read(
    stage3: Any, param: Any, read: Callable[[Any, torch.Tensor, int, int], torch.Tensor | None]
) -> tuple[torch.Tensor, int] | None:
    """The range and the number of its sub-group; None: DeepSpeed reads it."""
    from deepspeed.accelerator import get_accelerator

    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

    swapper = stage3.optimizer_swapper
    if not isinstance(swapper, OptimizerSwapper):
        return None
    number, begin, numel = stage3.grad_position[stage3.get_param_id(param)]
    if not stage3._swappable_optimizer_subgroup(number):
        return None
    if not get_accelerator().resolves_data_dependency():
        stage3.reduce_and_partition_stream.synchronize()  # as DeepSpeed does before it looks
    part = read(swapper, stage3.fp32_partitioned_groups_flat[number], begin, numel)
    return None if part is None else (part, number)
