"""The step over chunks of optimizers that penstock has no equal kernels for, and that treat every element by itself.

The optimizer steps each chunk as if it were a parameter of its own. What it keeps besides states of the parameter's
length (a count of steps) is the same for all chunks of a sub-group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from penstock._core import Lease
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.new_weights import NewWeights
from penstock.deepspeed.streamed_step import ANOTHER, StreamedStep
from penstock.deepspeed.sub_group import MASTER, SubGroup
from penstock.errors import ArgumentError

# By module and name: a subclass may do anything.
ELEMENTWISE = frozenset(
    {
        ("deepspeed.ops.adagrad.cpu_adagrad", "DeepSpeedCPUAdagrad"),
        ("deepspeed.ops.lion.cpu_lion", "DeepSpeedCPULion"),
        ("torch.optim.adadelta", "Adadelta"),
        ("torch.optim.adagrad", "Adagrad"),
        ("torch.optim.adam", "Adam"),
        ("torch.optim.adamax", "Adamax"),
        ("torch.optim.adamw", "AdamW"),
        ("torch.optim.nadam", "NAdam"),
        ("torch.optim.radam", "RAdam"),
        ("torch.optim.rmsprop", "RMSprop"),
        ("torch.optim.sgd", "SGD"),
    }
)

_HAS_OTHERS = "it steps parameters of the script's own (add_param_group), once with each of them"


def kind_of(optimizer: Any) -> tuple[str, str]:
    return type(optimizer).__module__, type(optimizer).__name__


class ElementwiseStep(StreamedStep):
    """Runs the optimizer's own step on one chunk after the other."""

    def why_not(self, stage3: Any) -> str | None:
        if kind_of(stage3.optimizer) not in ELEMENTWISE:
            return ANOTHER
        params = [param for group in stage3.optimizer.param_groups for param in group["params"]]
        has_others = params and not {*map(id, params)} <= {*map(id, stage3.fp32_partitioned_groups_flat)}
        return _HAS_OTHERS if has_others else None

    def step(self, original: Callable[..., Any], number: int) -> None:
        optimizer, (master, group, swapper) = self._stage3().optimizer, self._sub_group(number)
        before = {name: value for name, value in optimizer.state.get(master, {}).items() if name not in group.tensors}
        after: dict[str, Any] = {}

        def update(group: SubGroup, chunk: int, gradient: torch.Tensor, weights: NewWeights) -> None:
            after.update(self._run_chunk(number, group, chunk, gradient, weights, before))

        self._run(number, update)
        for name, value in after.items():
            if torch.is_tensor(before.get(name)):  # which sub-groups may share, as behind a universal checkpoint
                with torch.no_grad():
                    after[name] = before[name].copy_(value)
        last = optimizer.state.get(master, {})
        for name, dtype in group.dtypes.items():
            if name != MASTER and group.has_content(name):
                after[name] = last[name] if torch.is_tensor(last.get(name)) else swapper.nothing(dtype)
        if after:
            state = optimizer.state[master]  # a script may hold it
            for name in state.keys() - after.keys():
                del state[name]
            state.update(after)

    def _run_chunk(
        self,
        number: int,
        group: SubGroup,
        chunk: int,
        gradient: torch.Tensor,
        weights: NewWeights,
        before: dict[str, Any],
    ) -> dict[str, Any]:
        """before: what the optimizer keeps besides states of the parameter's length. Returns what it keeps now.

        What is in memory of the chunk goes back with this call, also where it fails.
        """
        optimizer = self._stage3().optimizer
        leases: dict[str, Lease] = {}
        state: dict[str, Any] = {name: _copy(value) for name, value in before.items()}
        part = torch.nn.Parameter(plain_tensors.empty(0, torch.float32), requires_grad=False)
        try:
            for name in group.tensors:
                if name == MASTER or group.has_chunk(name, chunk):
                    leases[name] = group.lease_of(name, chunk)
            part.data = from_dlpack(leases[MASTER])
            part.grad = self._unscaled(number, torch.empty_like(part).copy_(gradient))
            state.update({name: from_dlpack(lease) for name, lease in leases.items() if name != MASTER})
            if state:
                optimizer.state[part] = state
            self._note_change(None)
            # Older torch (2.11) makes step counts on the default device, which a script may have set.
            with self._only_parameter(number, part), torch.device("cpu"):
                optimizer.step()
            self._note_change(sum(group.cuts[chunk]))
            weights.take(group.cuts[chunk][0], part.data)
            group.commit(MASTER, chunk, leases[MASTER])
            return self._commit_states(group, chunk, part, optimizer.state.get(part, {}), leases)
        finally:
            optimizer.state.pop(part, None)
            part.grad = None
            part.data = plain_tensors.empty(0, torch.float32)
            state.clear()
            leases.clear()

    @contextmanager
    def _only_parameter(self, number: int, part: torch.Tensor) -> Iterator[None]:
        """As DeepSpeed does with the sub-group's master."""
        stage3 = self._stage3()
        param_group = stage3.optimizer.param_groups[stage3.sub_group_to_group_id[number]]
        param_group["params"] = [part]
        try:
            yield
        finally:
            param_group["params"] = []

    def _commit_states(
        self, group: SubGroup, chunk: int, part: torch.Tensor, state: dict[str, Any], leases: dict[str, Lease]
    ) -> dict[str, Any]:
        """States of the parameter's length become contents. Returns the others."""
        swapped = {name: value for name, value in state.items() if _is_like(value, part)}
        if chunk == 0:
            self._declare({name: value.dtype for name, value in swapped.items()})
        for name in group.tensors:
            if name == MASTER or (name not in swapped and name not in leases):
                continue
            value = swapped.get(name)
            if value is None:
                raise ArgumentError(
                    f"the optimizer's state '{name}' of sub-group {group.key} has not the length of its parameter any "
                    'more: penstock cannot swap it. Use "device": "cpu" for offload_optimizer'
                )
            if name in leases and value.data_ptr() == leases[name].data_ptr:
                group.commit(name, chunk, leases[name])
            else:  # made by the optimizer
                group.replace_chunk(name, chunk, value)
        return {name: value for name, value in state.items() if name not in group.tensors}


def _copy(value: Any) -> Any:
    return value.clone() if torch.is_tensor(value) else value


def _is_like(value: Any, part: torch.Tensor) -> bool:
    """A count of steps is a tensor too, of no dimension."""
    return torch.is_tensor(value) and value.shape == part.shape
