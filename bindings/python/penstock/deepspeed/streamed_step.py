"""The optimizer's step over chunks of states: a few of them are in memory, however large a sub-group is.

DeepSpeed goes through the sub-groups as ever; its optimizer counts steps and chooses hyperparameters. The chunks of a
sub-group are read, updated and written one after the other, and new weights go where they belong.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import itertools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from penstock import messages
from penstock._core import STATE_CHUNKS_AHEAD
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.flat_gradient import flat_gradient
from penstock.deepspeed.gradient_cycle import cycle_of
from penstock.deepspeed.new_weights import NewWeights
from penstock.deepspeed.step_hooks import keep_scale_on_host, why_whole
from penstock.deepspeed.sub_group import SubGroup

if TYPE_CHECKING:
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

ANOTHER = "it has taken the place of the optimizer that the run began with"

# update(sub-group, number of the chunk, its gradient as it was accumulated, where new weights go)
ChunkUpdate = Callable[[SubGroup, int, torch.Tensor, NewWeights], None]


class StreamedStep(abc.ABC):
    """Steps the sub-groups of one optimizer swapper, one at a time: begin(), unscale(), then step()."""

    takes_narrow_states = False  # moments in fewer bits
    unused_states: tuple[str, ...] = ()  # that the optimizer keeps, and that no step touches

    def __init__(self, stage3: Any, swapper: OptimizerSwapper) -> None:
        self._stage3: Callable[[], Any] = weakref.ref(stage3)
        self._swapper = weakref.ref(swapper)
        self._unscale: Callable[[], Any] | None = None  # DeepSpeed's, of the sub-group that is stepped
        self._ahead: Iterator[list[int]] | None = None  # tensors of chunks that the step has not announced yet
        self._begun: int | None = None  # the sub-group that is stepped in chunks
        self._is_note_given = False

    def may_begin(self, number: int) -> bool:
        """Whether nothing looks at the whole sub-group now; one line says so where it does. What the script has done
        with the optimizer's states counts from here on.
        """
        master, _, swapper = self._sub_group(number)
        swapper.settle_states(master)
        stage3 = self._stage3()
        reason = why_whole(stage3) or self.why_not(stage3)
        if reason is not None and not self._is_note_given and distributed.get_rank() == 0:
            messages.note(f"{type(stage3.optimizer).__name__} is stepped a whole sub-group at a time: {reason}")
            self._is_note_given = True
        return reason is None

    def has_begun(self, number: int) -> bool:
        return self._begun == number

    def begin(self, number: int) -> None:
        """The next step of the optimizer is that of sub-group `number`."""
        master, group, swapper = self._sub_group(number)
        group.opened = None  # a setter has failed between DeepSpeed's two calls
        if master.numel() != 0:  # something has left it swapped in: as it is in memory, it counts
            swapper.swap_out_optimizer_state(master)
        swapper.session.plan_if_stale()
        swapper.session.check_writes()
        self._unscale = None
        self._begun = number

    def leave(self) -> None:
        """The next step of the optimizer is that of a whole sub-group."""
        self._begun = None

    def end(self) -> None:
        """Of the step of all sub-groups, also of one that has failed: what the optimizer steps next is none of them."""
        self._ahead = self._unscale = self._begun = None

    def unscale(self, original: Callable[..., Any], number: int, total_norm: Any) -> None:
        """`original` multiplies the gradient of a sub-group's master: done when a gradient is in memory."""
        self._unscale = functools.partial(original, self._stage3(), number, total_norm)

    @abc.abstractmethod
    def why_not(self, stage3: Any) -> str | None:
        """Why this cannot step the optimizer as it is now; None: it can."""

    @abc.abstractmethod
    def step(self, original: Callable[..., Any], number: int) -> None:
        """In the place of `original`, DeepSpeed's step of a sub-group."""

    def _run(self, number: int, update: ChunkUpdate) -> None:
        master, group, swapper = self._sub_group(number)
        gradient = swapper.gradient(master, group) if group.set_gradients else flat_gradient(self._stage3(), master)
        assert gradient is not None
        weights = NewWeights(self._stage3(), number)
        try:
            for chunk, (begin, numel) in enumerate(group.cuts):
                self._announce()
                update(group, chunk, gradient.narrow(0, begin, numel), weights)
        finally:
            weights.drop()

    def _unscaled(self, number: int, gradient: torch.Tensor) -> torch.Tensor:
        """`gradient`, multiplied in place as DeepSpeed unscales and clips that of sub-group `number`."""
        return gradient if self._unscale is None else _unscaled(self._stage3(), number, gradient, self._unscale)

    def _note_change(self, elements: int | None) -> None:
        """From here on so many elements of the sub-group are updated, or any of them may be (None)."""
        cycle = cycle_of(self._stage3())
        assert cycle is not None
        cycle.progress.updated(elements)

    def _declare(self, states: dict[str, torch.dtype]) -> None:
        """States that do not exist yet, of all sub-groups at once, so that the first step plans once."""
        swapper = self._swapper()
        assert swapper is not None
        for group in self._groups(swapper):
            for name, dtype in states.items():
                if name not in group.tensors:
                    swapper.declare_state(group, name, dtype)

    def _announce(self) -> None:
        """What comes next, a chunk for each that is stepped: in the first steps the engine does not know the order."""
        swapper = self._swapper()
        assert swapper is not None
        count = 1
        if self._ahead is None:
            groups = self._groups(swapper)
            self._ahead = (
                group.contents_of(chunk, self.unused_states) for group in groups for chunk in range(len(group.cuts))
            )
            count += STATE_CHUNKS_AHEAD
        for tensors in itertools.islice(self._ahead, count):
            swapper.engine.prefetch(tensors)

    def _sub_group(self, number: int) -> tuple[torch.Tensor, SubGroup, OptimizerSwapper]:
        stage3, swapper = self._stage3(), self._swapper()
        assert stage3 is not None and swapper is not None
        master = stage3.fp32_partitioned_groups_flat[number]
        group = swapper.group(master)
        assert group is not None
        return master, group, swapper

    def _groups(self, swapper: OptimizerSwapper) -> list[SubGroup]:
        """The sub-groups that are swapped, in the order of the step."""
        groups = [swapper.group(master) for master in self._stage3().fp32_partitioned_groups_flat]
        return [group for group in groups if group is not None]


# Wrappers of DeepSpeedZeroOptimizer_Stage3's methods.


def _step_for(stage3: Any, number: int) -> StreamedStep | None:
    """What may step the sub-group; None: DeepSpeed does."""
    step: StreamedStep | None = getattr(stage3.optimizer_swapper, "step", None)
    return step if step is not None and stage3._swappable_optimizer_subgroup(number) else None


def _step_of(stage3: Any, number: int) -> StreamedStep | None:
    """What steps the sub-group, as it was prepared."""
    step = _step_for(stage3, number)
    return step if step is not None and step.has_begun(number) else None


def preparing(original: Callable[..., None]) -> Callable[..., None]:
    """Of _prepare_sub_group, which swaps a whole sub-group in."""

    @functools.wraps(original)
    def prepare(self: Any, sub_group_id: int, timer_names: Any) -> None:
        step, cycle = _step_for(self, sub_group_id), cycle_of(self)
        if cycle is not None:
            cycle.progress.enter(sub_group_id)
        if step is not None:
            if step.may_begin(sub_group_id):
                step.begin(sub_group_id)
                return
            step.leave()
        original(self, sub_group_id, timer_names)
        if cycle is not None:
            cycle.progress.updated(None)

    return prepare


def _unscaled(stage3: Any, number: int, gradient: torch.Tensor, unscale: Callable[[], Any]) -> torch.Tensor:
    """`unscale` multiplies the gradient of the sub-group's master in place: here `gradient`."""
    masters = stage3.fp32_partitioned_groups_flat
    master = masters[number]
    masters[number] = types.SimpleNamespace(grad=gradient)
    try:
        unscale()
    finally:
        masters[number] = master
    return gradient


def unscaling(original: Callable[..., None]) -> Callable[..., None]:
    """Of unscale_and_clip_grads, which multiplies a sub-group's gradient."""

    @functools.wraps(original)
    def unscale(self: Any, sub_group_id: int, total_norm: Any) -> None:
        step, cycle = _step_of(self, sub_group_id), cycle_of(self)
        if cycle is not None and self._swappable_optimizer_subgroup(sub_group_id):
            one = plain_tensors.full(1, 1.0, self.fp32_partitioned_groups_flat[sub_group_id].dtype)
            unscale_one = functools.partial(original, self, sub_group_id, total_norm)
            cycle.note_factor(sub_group_id, _unscaled(self, sub_group_id, one, unscale_one))
        if step is None:
            original(self, sub_group_id, total_norm)
        else:
            step.unscale(original, sub_group_id, total_norm)

    return unscale


@contextlib.contextmanager
def _stepped_whole(stage3: Any, number: int) -> Iterator[None]:
    """Hooks of the step get and set the sub-group where it is. DeepSpeed would swap it in before, and out behind."""
    group_of = getattr(stage3.optimizer_swapper, "group", None)
    group = None if group_of is None else group_of(stage3.fp32_partitioned_groups_flat[number])
    if group is None:
        yield
        return
    is_swappable = stage3._swappable_optimizer_subgroup
    stage3._swappable_optimizer_subgroup = lambda other: other != number and is_swappable(other)
    group.is_stepped = True
    try:
        yield
    finally:
        group.is_stepped = False
        del stage3._swappable_optimizer_subgroup


def stepping(original: Callable[..., None]) -> Callable[..., None]:
    """Of _optimizer_step."""

    @functools.wraps(original)
    def optimizer_step(self: Any, sub_group_id: int) -> None:
        step = _step_of(self, sub_group_id)
        if step is None:
            keep_scale_on_host(self, sub_group_id)
            with _stepped_whole(self, sub_group_id):
                original(self, sub_group_id)
        else:
            step.step(original, sub_group_id)
            # The optimizer has made states that are as short as the master.
            self.optimizer_swapper.settle_states(self.fp32_partitioned_groups_flat[sub_group_id])

    return optimizer_step


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
