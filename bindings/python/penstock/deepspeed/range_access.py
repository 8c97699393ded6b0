"""What a script asks of one parameter: its range of the sub-group's master, state or gradient, without the rest of it.

A sub-group may have a billion elements. What the script writes goes through whole states still.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


def reading_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _get_fp32_opt_state_partition: of a master, or of the state that is named."""

    @functools.wraps(original)
    def get(self: Any, param: Any, release_swap_buffers: bool, optim_state_key: str | None = None) -> Any:
        place = _place(self, param)
        if place is not None and release_swap_buffers:
            part = self.optimizer_swapper.read_state(place.master, optim_state_key, place.begin, place.numel)
            if part is not None:
                return part, place.number
        try:
            return original(self, param, release_swap_buffers, optim_state_key)
        except KeyError:  # there is no such state, and DeepSpeed leaves the sub-group swapped in
            if place is not None:
                self._release_swap_buffers(place.number)
            raise

    return get


def reading_gradient(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _get_fp32_grad_state_partition."""

    @functools.wraps(original)
    def get(self: Any, param: Any, release_swap_buffers: bool) -> Any:
        place = _place(self, param) if release_swap_buffers else None
        if place is not None:
            part = self.optimizer_swapper.read_gradient(place.master, place.begin, place.numel)
            if part is not None:
                return part, place.number
        return original(self, param, release_swap_buffers)

    return get


class _Place(NamedTuple):
    """Of a parameter: its sub-group, and its range there."""

    number: int
    master: torch.Tensor
    begin: int
    numel: int


def _place(stage3: Any, param: Any) -> _Place | None:
    """None: the sub-group is not swapped."""
    from deepspeed.accelerator import get_accelerator

    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

    number, begin, numel = stage3.grad_position[stage3.get_param_id(param)]
    is_ours = isinstance(stage3.optimizer_swapper, OptimizerSwapper)
    if not is_ours or not stage3._swappable_optimizer_subgroup(number):
        return None
    if not get_accelerator().resolves_data_dependency():
        stage3.reduce_and_partition_stream.synchronize()  # as DeepSpeed does before it looks
    return _Place(number, stage3.fp32_partitioned_groups_flat[number], begin, numel)
