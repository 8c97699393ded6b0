"""The step of DeepSpeed's CPU optimizers over chunks, by penstock's kernels: a pass from gradients to new weights."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.dlpack import from_dlpack

from penstock._core import Lease
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.cpu_kernel import CpuKernel, Update
from penstock.deepspeed.gradient_cycle import cycle_of
from penstock.deepspeed.new_weights import NewWeights
from penstock.deepspeed.streamed_step import ANOTHER, StreamedStep
from penstock.deepspeed.sub_group import MASTER, SubGroup
from penstock.deepspeed.torch_dtype import engine_dtype

if TYPE_CHECKING:
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper


class KernelStep(StreamedStep):
    """Where the optimizer hands a sub-group to its compiled op, the chunks are stepped instead."""

    def __init__(self, stage3: Any, swapper: OptimizerSwapper, kind: type[CpuKernel]) -> None:
        super().__init__(stage3, swapper)
        self.takes_narrow_states = kind.TAKES_NARROW_STATES
        self._number: int | None = None  # of the sub-group that is stepped
        self.unused_states = kind.UNUSED_STATES
        self._states = kind.STATES
        take = weakref.WeakMethod(self._take)
        kernel = kind(stage3.optimizer, lambda update: bool((method := take()) and method(update)))
        kernel.replace_op(stage3.optimizer)
        self._optimizer = weakref.ref(stage3.optimizer)

    def why_not(self, stage3: Any) -> str | None:
        return None if stage3.optimizer is self._optimizer() else ANOTHER

    def begin(self, number: int) -> None:
        master, group, swapper = self._sub_group(number)
        states = (*self._states, *self.unused_states)
        if not all(name in group.tensors for name in states):
            self._declare(dict.fromkeys(states, torch.float32))
        super().begin(number)
        master.grad = swapper.nothing()  # a sub-group without a gradient is not stepped
        self._number = number

    def end(self) -> None:
        super().end()
        self._number = None

    def step(self, original: Callable[..., Any], number: int) -> None:
        stage3, (master, _, _) = self._stage3(), self._sub_group(number)
        before = dict(stage3.optimizer.state.get(master, {}))
        try:
            original(stage3, number)
        except BaseException:
            cycle = cycle_of(stage3)
            if cycle is not None and cycle.progress.elements == 0:  # the optimizer counts a step before it takes it
                state = stage3.optimizer.state[master]
                state.clear()
                state.update(before)
            raise

    def _take(self, update: Update) -> bool:
        number, self._number = self._number, None
        if number is None:
            return False
        one = plain_tensors.full(1, 1.0, torch.float32)
        factor = self._unscaled(number, one).item()  # what DeepSpeed makes of a gradient of 1
        self._run(number, functools.partial(self._run_chunk, functools.partial(update, gradient_factor=factor)))
        return True

    def _run_chunk(
        self, update: Update, group: SubGroup, chunk: int, gradient: torch.Tensor, weights: NewWeights
    ) -> None:
        """What is in memory of the chunk goes back with this call, also where it fails and the caller keeps the error
        with all that was seen on its way.
        """
        leases: dict[str, Lease] = {}
        states: list[torch.Tensor] = []
        try:
            for name in (MASTER, *self._states):
                leases[name] = group.lease_of(name, chunk)
                states.append(from_dlpack(leases[name]))
            layouts = {f"{name}_layout": layout for name in self._states if (layout := group.layout(name, chunk))}
            update(
                *states,
                gradient=gradient,
                gradient_dtype=engine_dtype(gradient.dtype),
                **layouts,
            )
            self._note_change(sum(group.cuts[chunk]))  # of arguments that it refuses the kernel has changed nothing
            weights.take(group.cuts[chunk][0], states[0])
            for name, lease in leases.items():
                group.commit(name, chunk, lease)
            for name in self.unused_states:
                if not group.has_chunk(name, chunk):
                    group.commit(name, chunk, group.lease_of(name, chunk))
        finally:
            states.clear()
            leases.clear()
