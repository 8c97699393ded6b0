"""What a script reads or sets of one parameter: its range of the sub-group's master, state or gradient, and no more of
it, for a sub-group may have a billion elements.

DeepSpeed sets a range in two calls: it gets it with `release_swap_buffers` false, copies into it, and swaps the
sub-group out. The swapper writes the open range then. One that is never swapped out is dropped.

A hook of the optimizer's step reads the sub-group that is stepped in memory, where it stays until the step releases it.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from penstock.deepspeed import plain_tensors
from penstock.deepspeed.flat_gradient import flat_gradient
from penstock.deepspeed.gradient_cycle import cycle_of
from penstock.deepspeed.sub_group import MASTER, OpenRange, SubGroup

if TYPE_CHECKING:
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper


def reading_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _get_fp32_opt_state_partition: of a master, or of the state that is named."""

    @functools.wraps(original)
    def get(self: Any, param: Any, release_swap_buffers: bool, optim_state_key: str | None = None) -> Any:
        place = _place(self, param)
        if place is not None:
            if release_swap_buffers and place.group.is_stepped:
                return place.copy_of(_whole(self.optimizer_swapper, place, optim_state_key or MASTER)), place.number
            part = _read_state(self.optimizer_swapper, place, optim_state_key)
            if part is not None:
                if not release_swap_buffers:
                    place.open(optim_state_key or MASTER, part)
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
        place = _place(self, param)
        if place is not None and (release_swap_buffers or _is_being_set(self, param)):
            if release_swap_buffers and place.group.is_stepped and place.master.grad is not None:
                return place.copy_of(place.master.grad), place.number
            part = _read_gradient(self, place, param)
            if part is not None:
                if not release_swap_buffers:
                    place.open(None, part)
                return part, place.number
        return original(self, param, release_swap_buffers)

    return get


def reading_all_gradients(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of get_fp32_grad_partitions: those of swapped sub-groups are copies."""

    @functools.wraps(original)
    def get(self: Any) -> Any:
        if not self.offload_optimizer:
            return original(self)
        gradients: dict[int, dict[int, torch.Tensor]] = collections.defaultdict(dict)
        for group in self.fp16_groups:
            for index, param in enumerate(group):
                number, begin, numel = self.grad_position[self.get_param_id(param)]
                place = _place(self, param)
                part = None if place is None else _read_gradient(self, place, param)
                if part is None:
                    part = self.fp32_partitioned_groups_flat[number].grad.narrow(0, begin, numel)
                gradients[number][index] = part
        return gradients

    return get


class _Place(NamedTuple):
    """Of a parameter: its sub-group, and its range there."""

    number: int
    master: torch.Tensor
    group: SubGroup
    begin: int
    numel: int

    @property
    def is_in_memory(self) -> bool:
        return self.master.numel() != 0

    def copy_of(self, whole: torch.Tensor) -> torch.Tensor:
        """Of a tensor of the sub-group that is in memory: the parameter's range."""
        return whole.narrow(0, self.begin, self.numel).clone()

    def open(self, name: str | None, part: torch.Tensor) -> None:
        """`part` is what DeepSpeed copies into next. name: None for the gradient."""
        self.group.opened = OpenRange(name, self.begin, part)


def _whole(swapper: OptimizerSwapper, place: _Place, name: str) -> torch.Tensor:
    """The sub-group's master, or its state of this name: empty where it is not in memory."""
    return place.master if name == MASTER else swapper.optimizer.state[place.master][name]


def _read_state(swapper: OptimizerSwapper, place: _Place, name: str | None) -> torch.Tensor | None:
    """A range of the state, or of the master; None: there is no such content, or it is in memory."""
    group, name = place.group, name or MASTER
    swapper.settle_states(place.master)
    if place.is_in_memory or not group.has_content(name):
        return None
    group.complete(name)
    return group.read(name, _whole(swapper, place, name).dtype, place.begin, place.numel)


def _read_gradient(stage3: Any, place: _Place, param: Any) -> torch.Tensor | None:
    """A range of the gradient in the master's dtype; None: it is in memory."""
    swapper: OptimizerSwapper = stage3.optimizer_swapper
    flat = flat_gradient(stage3, place.master)
    if flat is None or place.is_in_memory:
        return None
    begin, end = place.begin, place.begin + place.numel
    gradient = plain_tensors.empty(place.numel, swapper.dtype).copy_(flat.narrow(0, begin, place.numel))
    for offset, numel, content in swapper.valid_set_gradients(place.group):
        first, last = max(begin, offset), min(end, offset + numel)
        if first < last:
            gradient.narrow(0, first - begin, last - first).copy_(content.narrow(0, first - offset, last - first))
    cycle = cycle_of(stage3)
    factor = None if cycle is None else cycle.used_factor(place.number, param.ds_id)
    return gradient if factor is None else gradient.mul_(factor)


def _is_being_set(stage3: Any, param: Any) -> bool:
    """Whether penstock keeps the range of this parameter when DeepSpeed has changed it."""
    cycle = cycle_of(stage3)
    return cycle is not None and cycle.being_set is param


def _place(stage3: Any, param: Any) -> _Place | None:
    """None: the sub-group is not swapped."""
    from deepspeed.accelerator import get_accelerator

    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

    number, begin, numel = stage3.grad_position[stage3.get_param_id(param)]
    master, swapper = stage3.fp32_partitioned_groups_flat[number], stage3.optimizer_swapper
    group = swapper.group(master) if isinstance(swapper, OptimizerSwapper) else None
    if group is None:
        return None
    if not get_accelerator().resolves_data_dependency():
        stage3.reduce_and_partition_stream.synchronize()  # as DeepSpeed does before it looks
    return _Place(number, master, group, begin, numel)
