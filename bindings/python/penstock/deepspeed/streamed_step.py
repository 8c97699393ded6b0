"""The optimizer's step over chunks of states: a few of them are in memory, however large a sub-group is.

DeepSpeed goes through the sub-groups as ever; its optimizer counts steps and chooses hyperparameters. Where it hands
a sub-group to CPU Adam's compiled op, the chunks are read, updated and written one after the other, and new weights go
where they belong.
"""

from __future__ import annotations

import functools
import itertools
import types
import weakref
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch.utils.dlpack import from_dlpack

from penstock import messages
from penstock._core import STATE_CHUNKS_AHEAD, Lease, adam_instructions
from penstock.deepspeed.compiled_op import CompiledOp
from penstock.deepspeed.cpu_adam import CpuAdam, Update, equals_op
from penstock.deepspeed.gradient_cycle import cycle_of
from penstock.deepspeed.known_texts import TESTED_VERSIONS
from penstock.deepspeed.narrow_states import MOMENTS
from penstock.deepspeed.new_weights import NewWeights
from penstock.deepspeed.sub_group import MASTER, SubGroup
from penstock.deepspeed.torch_dtype import engine_dtype

if TYPE_CHECKING:
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

_PROVEN_VERSIONS = TESTED_VERSIONS[TESTED_VERSIONS.index("0.19.4") :]  # before 0.19 the op rounded otherwise


class StreamedStep:
    """Steps the sub-groups of one optimizer swapper, one at a time: begin(), then the optimizer's step."""

    def __init__(self, stage3: Any, swapper: OptimizerSwapper) -> None:
        self._stage3: Callable[[], Any] = weakref.ref(stage3)
        self._swapper = weakref.ref(swapper)
        self._number: int | None = None  # of the sub-group that is stepped
        self._factor = 1.0
        self._ahead: Iterator[list[int]] | None = None  # tensors of chunks that the step has not announced yet

    @staticmethod
    def of(stage3: Any, swapper: OptimizerSwapper) -> StreamedStep | None:
        """None: this optimizer is not stepped in chunks."""
        optimizer: Any = getattr(stage3, "optimizer", None)
        reason = _why_whole(stage3, optimizer, swapper.dtype)
        if reason is not None:
            if distributed.get_rank() == 0:
                messages.note(f"{type(optimizer).__name__} is stepped a whole sub-group at a time: {reason}")
            return None
        step = StreamedStep(stage3, swapper)
        take = weakref.WeakMethod(step._take)
        op = optimizer.ds_opt_adam
        optimizer.ds_opt_adam = CpuAdam(op, optimizer.adam_w_mode, lambda update: bool((m := take()) and m(update)))
        return step

    def begin(self, number: int) -> None:
        """The next step of the optimizer is that of sub-group `number`."""
        stage3, swapper = self._stage3(), self._swapper()
        assert stage3 is not None and swapper is not None
        master = stage3.fp32_partitioned_groups_flat[number]
        if master.numel() != 0:  # something has left it swapped in: as it is in memory, it counts
            swapper.swap_out_optimizer_state(master)
        group = swapper.group(master)
        assert group is not None
        if not all(name in group.tensors for name in MOMENTS):
            self._declare_moments(stage3, swapper)
        swapper.session.plan_if_stale()
        swapper.session.check_writes()
        master.grad = swapper.nothing()  # a sub-group without a gradient is not stepped
        self._number, self._factor = number, 1.0

    def end(self) -> None:
        """Of the step of all sub-groups, also of one that has failed: what the optimizer steps next is none of them."""
        self._number = None
        self._ahead = None

    def multiply(self, original: Callable[..., Any], number: int, total_norm: Any) -> None:
        """What DeepSpeed multiplies the gradient by, from what it does to a gradient of 1."""
        masters = self._stage3().fp32_partitioned_groups_flat
        master = masters[number]
        masters[number] = types.SimpleNamespace(grad=torch.ones(1, dtype=torch.float32))
        try:
            original(self._stage3(), number, total_norm)
            self._factor = masters[number].grad.item()
        finally:
            masters[number] = master

    def _take(self, update: Update) -> bool:
        number, self._number = self._number, None
        if number is None:
            return False
        self._run(number, update)
        return True

    def _run(self, number: int, update: Update) -> None:
        stage3, swapper = self._stage3(), self._swapper()
        assert stage3 is not None and swapper is not None
        master = stage3.fp32_partitioned_groups_flat[number]
        group = swapper.group(master)
        assert group is not None
        gradient = swapper.gradient(master, group) if group.set_gradients else swapper.flat_gradient(master)
        assert gradient is not None
        kind = engine_dtype(gradient.dtype)
        weights = NewWeights(stage3, number)
        try:
            for chunk, (begin, numel) in enumerate(group.cuts):
                self._announce(stage3, swapper)
                one = functools.partial(update, gradient=gradient.narrow(0, begin, numel), gradient_dtype=kind)
                self._run_chunk(group, chunk, one, weights)
        finally:
            weights.drop()

    def _run_chunk(self, group: SubGroup, chunk: int, update: Update, weights: NewWeights) -> None:
        """What is in memory of the chunk goes back with this call, also where it fails and the caller keeps the error
        with all that was seen on its way.
        """
        leases: dict[str, Lease] = {}
        states: list[torch.Tensor] = []
        try:
            for name in (MASTER, *MOMENTS):
                leases[name] = group.lease_of(name, chunk)
                states.append(from_dlpack(leases[name]))
            cycle = cycle_of(self._stage3())
            assert cycle is not None
            begin, numel = group.cuts[chunk]
            cycle.progress.updated(begin + numel)  # from here on a state may be changed, also where the rest fails
            layouts = {f"{name}_layout": group.layout(name, chunk) for name in MOMENTS}
            update(*states, gradient_factor=self._factor, **layouts)
            weights.take(begin, states[0])
            for name, lease in leases.items():
                group.commit(name, chunk, lease)
        finally:
            states.clear()
            leases.clear()

    def _declare_moments(self, stage3: Any, swapper: OptimizerSwapper) -> None:
        """Of all sub-groups at once, so that the first step plans once."""
        for group in _groups(stage3, swapper):
            for name in MOMENTS:
                if name not in group.tensors:
                    swapper.declare_state(group, name, torch.float32)

    def _announce(self, stage3: Any, swapper: OptimizerSwapper) -> None:
        """What comes next, a chunk for each that is stepped: in the first steps the engine does not know the order."""
        count = 1
        if self._ahead is None:
            groups = _groups(stage3, swapper)
            self._ahead = (group.contents_of(chunk) for group in groups for chunk in range(len(group.cuts)))
            count += STATE_CHUNKS_AHEAD
        for tensors in itertools.islice(self._ahead, count):
            swapper.engine.prefetch(tensors)


def _groups(stage3: Any, swapper: OptimizerSwapper) -> list[SubGroup]:
    """The sub-groups that are swapped, in the order of the step."""
    groups = [swapper.group(master) for master in stage3.fp32_partitioned_groups_flat]
    return [group for group in groups if group is not None]


def _why_whole(stage3: Any, optimizer: Any, dtype: torch.dtype) -> str | None:
    """Why an optimizer is not stepped in chunks; None: it is."""
    kind = type(optimizer)
    if (kind.__module__, kind.__name__) != ("deepspeed.ops.adam.cpu_adam", "DeepSpeedCPUAdam"):
        return "penstock has kernels for DeepSpeedCPUAdam"
    if dtype != torch.float32 or not getattr(optimizer, "fp32_optimizer_states", False):
        return "its masters and states are not float32"
    if getattr(stage3, "torch_autocast_gradscaler", None) or getattr(stage3, "zenflow", False):
        return "torch's GradScaler and ZenFlow look at whole gradients"
    if not (_is_known_to_equal(optimizer.ds_opt_adam) or equals_op(optimizer.ds_opt_adam, optimizer.adam_w_mode)):
        return "DeepSpeed's compiled op rounds otherwise than penstock's kernels here (before 0.19 it does)"
    return None


def _is_known_to_equal(op: Any) -> bool:
    """Whether it is not worth compiling the op for the proof: tests have proven this version for these instructions."""
    try:
        is_tested = metadata.version("deepspeed") in _PROVEN_VERSIONS
    except metadata.PackageNotFoundError:
        return False
    return isinstance(op, CompiledOp) and not op.is_loaded and is_tested and adam_instructions() in ("avx2", "avx512")


# Wrappers of DeepSpeedZeroOptimizer_Stage3's methods.


def _step_of(stage3: Any, number: int) -> StreamedStep | None:
    """What steps the sub-group; None: DeepSpeed does."""
    step: StreamedStep | None = getattr(stage3.optimizer_swapper, "step", None)
    return step if step is not None and stage3._swappable_optimizer_subgroup(number) else None


def preparing(original: Callable[..., None]) -> Callable[..., None]:
    """Of _prepare_sub_group, which swaps a whole sub-group in."""

    @functools.wraps(original)
    def prepare(self: Any, sub_group_id: int, timer_names: Any) -> None:
        step, cycle = _step_of(self, sub_group_id), cycle_of(self)
        if cycle is not None:
            cycle.progress.enter(sub_group_id)
        if step is not None:
            step.begin(sub_group_id)
            return
        original(self, sub_group_id, timer_names)
        if cycle is not None:
            cycle.progress.updated(None)

    return prepare


def unscaling(original: Callable[..., None]) -> Callable[..., None]:
    """Of unscale_and_clip_grads, which multiplies a sub-group's gradient."""

    @functools.wraps(original)
    def unscale(self: Any, sub_group_id: int, total_norm: Any) -> None:
        step = _step_of(self, sub_group_id)
        if step is None:
            original(self, sub_group_id, total_norm)
        else:
            step.multiply(original, sub_group_id, total_norm)

    return unscale


def reassigning(original: Callable[..., None]) -> Callable[..., None]:
    """Of _reassign_or_swap_out_partitioned_parameters: the weights are where they belong already."""

    @functools.wraps(original)
    def reassign(self: Any, sub_group_id: int) -> None:
        step = _step_of(self, sub_group_id)
        if step is None:
            original(self, sub_group_id)
            return
        if self.fp16_partitioned_groups_flat[sub_group_id] is not None:
            self._unflatten_partitioned_parameters(sub_group_id)

    return reassign
