"""The rule of gradients: a parameter without a gradient since the last step has gradient zero.

DeepSpeed's stage 3 keeps gradients in a flat buffer and never clears it. A parameter that a cycle of accumulation does
not touch is stepped with what an earlier cycle left there; one whose first gradient comes after the cycle's first
micro-step has that gradient added to the rest of the last cycle. Stages 1 and 2 and leaf modules use zero instead. So
does penstock, wherever it swaps parameters or optimizer states of a model.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed

from penstock import messages
from penstock.deepspeed.naming import full_name
from penstock.deepspeed.step_progress import StepProgress
from penstock.errors import Error

IDLE_STEPS = 50  # without a gradient, after which the parameter is named once
_NAMED_MAX = 5
_ATTRIBUTE = "penstock_gradients"


class GradientCycle:
    """Which parameters of one stage-3 optimizer have a gradient in this cycle: from one step to the next.

    A cycle ends with `step()`, also with one that is skipped or fails half-way, and with the first gradient after
    `zero_grad()`. What it had can be read until the next one begins.

    The slice of a parameter in DeepSpeed's flat buffer is in the dtype of accumulation. Where optimizer states are
    offloaded, DeepSpeed has a copy of it in the master's dtype as well (sub-groups in RAM), and its norm. It makes both
    in the last micro-step; here they are made for what an earlier one touched, too.
    """

    def __init__(self, stage3: Any) -> None:
        self._stage3 = weakref.ref(stage3)
        self.progress = StepProgress()
        self._touched: set[int] = set()  # ds_ids whose slice holds this cycle's gradient
        self._derived: set[int] = set()  # of these: whose norm and copy are of this gradient
        self._by_hand: set[int] = set()  # whose copy the script has set
        self._ahead: set[int] = set()  # what the script has set of the next cycle, while this one's can be read
        self._zero: set[int] = set()  # whose slice, and copy, are zero
        self._settled = False  # nothing has changed since settle()
        self._at_boundary = True  # the last reduction was of the cycle's last micro-step
        self._idle: dict[int, int] = {}  # ds_id -> steps without a gradient
        self._warned = False
        self._void = False  # zero_grad() came, or a step: the next gradient begins a cycle
        self._used = False  # a step has used the gradients: another one has none of them
        self._factors: dict[int, torch.Tensor] = {}  # of each sub-group: what that step multiplied them by
        self.has_applied_muon = False  # in this step: its updates lie over the gradients
        self._is_spent = False  # by a step that failed behind that: another one needs other gradients
        self._being_set: Any = None
        self.is_stepping = False  # within `step()`
        self.may_step_again = False  # the last step has raised, and no gradient has come since

    @property
    def being_set(self) -> Any:
        """The parameter whose gradient the script is setting now; None outside of such a call."""
        return self._being_set

    def is_by_hand(self, ds_id: int) -> bool:
        """Whether what the script has set is this parameter's gradient still."""
        return ds_id in self._by_hand

    def begin_reduction(self, params: Sequence[Any]) -> None:
        """Gradients of `params` are about to go into the flat buffer: copied in the first micro-step, else added."""
        self._clear_if_void()
        self._is_spent = self.may_step_again = False
        stage3 = self._optimizer
        for param in params:
            if stage3.micro_step_id > 0 and param.ds_id not in self._touched:
                self._slice(param).zero_()
            self._touched.add(param.ds_id)
            self._zero.discard(param.ds_id)
            self._derived.discard(param.ds_id)
            self._by_hand.discard(param.ds_id)
        self._settled = False

    def end_reduction(self, params: Sequence[Any]) -> None:
        """In a cycle's last micro-step DeepSpeed has derived norms and copies."""
        at_boundary = self._optimizer.is_gradient_accumulation_boundary  # a value before DeepSpeed 0.19.6
        self._at_boundary = bool(at_boundary() if callable(at_boundary) else at_boundary)
        if self._at_boundary:
            self._derived.update(param.ds_id for param in params)

    def settle(self) -> None:
        """Makes slices, copies and norms follow the rule. Does nothing where nothing has changed."""
        if self._settled:
            return
        stage3 = self._optimizer
        for number, group in enumerate(stage3.fp16_groups):
            copied = stage3.offload_optimizer and not stage3._swappable_optimizer_subgroup(number)
            for param in group:
                ds_id = param.ds_id
                if ds_id in self._by_hand:
                    continue
                if ds_id in self._touched:
                    if stage3.offload_optimizer and ds_id not in self._derived:
                        self._derive(param, copied)
                elif ds_id not in self._zero:
                    self._clear(param, copied)
        self._settled = True

    def fail(self, error: BaseException) -> None:
        """A step has raised `error`. If it has changed nothing, the script may step again with the same gradients."""
        stage3 = self._optimizer
        self.progress.fail(stage3, error)
        if not self.progress.has_changed_nothing:
            self.end()
        elif self.has_applied_muon:
            self.end()
            self._is_spent = True
        else:
            self.discard()
        self.may_step_again = True

    def end(self) -> None:
        """A step has used the gradients. Accelerate's `backward()` steps, too, so that scripts read them behind it."""
        self._count_idle()
        self.discard()
        self._used = True
        self.may_step_again = False
        if getattr(self._optimizer, "use_muon", False):  # which writes its updates over the gradients
            self._zero.clear()
            self._clear_if_void()

    def begin_step(self) -> None:
        """Slices, copies and norms are those of this step."""
        self.has_applied_muon = False
        if self._is_spent:
            raise Error(
                "the step before has failed when Muon had written its updates over the gradients, so that they are "
                "gone: call backward() again before the next step"
            )
        if self._used:
            self._clear_if_void()
        if self._by_hand and not self._at_boundary:
            # Without managed accumulation DeepSpeed has just copied these slices over what the script had set.
            self._by_hand -= getattr(self._optimizer, "_offload_boundary_param_ids", set())
            self._settled = False
        self._factors.clear()
        self.settle()

    def note_factor(self, number: int, factor: torch.Tensor) -> None:
        """The step multiplies the gradient of a sub-group by this."""
        self._factors[number] = factor

    def used_factor(self, number: int, ds_id: int) -> torch.Tensor | None:
        """What the step, or the last one, has multiplied a parameter's gradient by; None: it has not used it."""
        is_used = self.is_stepping or (self._used and ds_id not in self._ahead)
        return self._factors.get(number) if is_used else None

    def discard(self) -> None:
        """The next gradient begins a cycle. A step that comes before it uses what there is, as DeepSpeed's does."""
        self._void = True
        self._ahead.clear()

    @contextmanager
    def setting(self, param: Any) -> Iterator[None]:
        """While the script sets the gradient of `param`: it counts whatever the cycle has seen. Behind a step it is of
        the next cycle; the others can be read still.
        """
        self.settle()
        self._being_set = param
        try:
            yield
        finally:
            self._being_set = None
        # Without offload what was set is in the slice itself, else in the copy.
        (self._by_hand if self._optimizer.offload_optimizer else self._touched).add(param.ds_id)
        self._zero.discard(param.ds_id)
        if self._void:
            self._ahead.add(param.ds_id)

    def restore_averaged_gradients(self) -> None:
        """Without offload a step uses up DeepSpeed's list of slices, which only a backward makes anew. What is frozen
        in the last micro-step has zeros there, whatever those before gave it.
        """
        stage3 = self._optimizer
        if not stage3.offload_optimizer:
            for number, group in enumerate(stage3.fp16_groups):
                stage3.averaged_gradients[number] = [self._slice(param) for param in group]

    def _clear_if_void(self) -> None:
        if self._void:
            self._touched &= self._ahead
            self._by_hand &= self._ahead
            self._derived.clear()
            self._ahead.clear()
            self._settled = False
            self._void = self._used = False
            swapper = self._optimizer.optimizer_swapper
            if swapper is not None:
                swapper.forget_set_gradients(self._by_hand)

    @property
    def _optimizer(self) -> Any:
        return self._stage3()

    def _slice(self, param: Any) -> torch.Tensor:
        slices = self._optimizer._DeepSpeedZeroOptimizer_Stage3__param_id_to_grad_partition
        partition: torch.Tensor = slices[param.ds_id]
        return partition

    def _copy(self, param: Any) -> torch.Tensor | None:
        stage3 = self._optimizer
        number, offset, numel = stage3.grad_position[stage3.get_param_id(param)]
        gradient = stage3.fp32_partitioned_groups_flat[number].grad
        return None if gradient is None else gradient.narrow(0, offset, numel)

    def _clear(self, param: Any, copied: bool) -> None:
        stage3 = self._optimizer
        self._slice(param).zero_()
        if stage3.offload_optimizer:  # without, norms are of the slices
            stage3.norm_for_param_grads.pop(stage3.get_param_id(param), None)
        copy = self._copy(param) if copied else None
        if copy is not None:
            copy.zero_()
        self._zero.add(param.ds_id)

    def _derive(self, param: Any, copied: bool) -> None:
        """What DeepSpeed does in the last micro-step, for a gradient that came before it."""
        from deepspeed.accelerator import get_accelerator

        stage3 = self._optimizer
        numel = _numel_of_this_rank(param)
        if numel > 0:
            gradient = self._slice(param).narrow(0, 0, numel)
            gradient = gradient.to(get_accelerator().current_device_name(), non_blocking=True)
            stage3.norm_for_param_grads[stage3.get_param_id(param)] = stage3._constant_buffered_norm2(gradient)
            copy = self._copy(param) if copied else None
            if copy is not None:
                copy.narrow(0, 0, numel).copy_(gradient)
        self._derived.add(param.ds_id)

    def _count_idle(self) -> None:
        params = [param for group in self._optimizer.fp16_groups for param in group]
        for param in params:
            has_gradient = param.ds_id in self._touched or param.ds_id in self._by_hand
            self._idle[param.ds_id] = 0 if has_gradient else self._idle.get(param.ds_id, 0) + 1
        idle = [param for param in params if self._idle[param.ds_id] >= IDLE_STEPS]
        if idle and not self._warned:
            self._warned = True
            if distributed.get_rank() == 0:
                messages.warn("idle-parameters", _idle_sentence(idle))


def cycle_of(stage3: Any) -> GradientCycle | None:
    """The cycle of a stage-3 optimizer; None where penstock swaps nothing of its model."""
    # Both are False where the configuration has no NVMe. What does not step has neither.
    if not (getattr(stage3, "swap_optimizer", False) or getattr(stage3, "params_in_nvme_and_cpu", False)):
        return None
    cycle: GradientCycle | None = getattr(stage3, _ATTRIBUTE, None)
    if cycle is None:
        cycle = GradientCycle(stage3)
        setattr(stage3, _ATTRIBUTE, cycle)
    return cycle


def _numel_of_this_rank(param: Any) -> int:
    """Elements of the partition that are the parameter's: the last ranks' are padded."""
    partition = int(param.partition_numel())
    return max(0, min(partition, int(param.ds_numel) - partition * distributed.get_rank(param.ds_process_group)))


def _idle_sentence(params: Sequence[Any]) -> str:
    names = [full_name(param) or f"parameter #{param.ds_id}" for param in params]
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return (
        f"no gradient for {IDLE_STEPS} steps: {', '.join(names[:_NAMED_MAX])}{more}; their gradient "
        "counts as zero, so weight decay and momentum still change them. Set requires_grad=False before "
        "deepspeed.initialize where they are not meant to train"
    )


def counting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of DeepSpeedEngine.step, which counts the micro-step last: one that raises ends its cycle of accumulation, too.

    Else the first micro-step behind it, or behind a load, would be taken for a cycle's last one.
    """

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        cycle = cycle_of(self.optimizer)
        if cycle is not None and cycle.may_step_again:
            self.micro_steps -= 1  # the same one
        try:
            return original(self, *args, **kwargs)
        except BaseException:
            if cycle is not None and cycle.may_step_again:
                self.micro_steps += 1
                self._running_engine_step = False  # without managed accumulation: the next backward is no cycle's last
            raise

    return step


# Wrappers of DeepSpeedZeroOptimizer_Stage3's methods.


def reducing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of partition_grads."""

    @functools.wraps(original)
    def partition_grads(self: Any, params_to_release: Any, grad_partitions: Any) -> Any:
        cycle = cycle_of(self)
        if cycle is None:
            return original(self, params_to_release, grad_partitions)
        params = list(params_to_release)
        cycle.begin_reduction(params)
        result = original(self, params_to_release, grad_partitions)
        cycle.end_reduction(params)
        return result

    return partition_grads


def applying_muon(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _apply_muon_to_accumulated_grads."""

    @functools.wraps(original)
    def apply_muon(self: Any) -> Any:
        cycle = cycle_of(self)
        if cycle is not None and getattr(self, "use_muon", False):
            cycle.has_applied_muon = True
        return original(self)

    return apply_muon


def discarding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of zero_grad."""

    @functools.wraps(original)
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        cycle = cycle_of(self)
        if cycle is not None:
            cycle.discard()
        return original(self, *args, **kwargs)

    return zero_grad


def setting_one(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of set_fp32_grad_for_param and set_local_grad_for_param."""

    @functools.wraps(original)
    def set_gradient(self: Any, value: Any, param: Any) -> Any:
        cycle = cycle_of(self)
        if cycle is None or not param.requires_grad:
            return original(self, value, param)
        with cycle.setting(param):
            return original(self, value, param)

    return set_gradient


def setting_many(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of update_fp32_grad_for_param_vectorized, whose loop has a whole sub-group in memory while `update_func` runs:
    that may read and set what it likes of it. Here each gradient is read, and set, by itself, in the same order.
    """

    @functools.wraps(original)
    def update_gradients(self: Any, update_func: Any, param_list: Any) -> Any:
        if cycle_of(self) is None:
            return original(self, update_func, param_list)
        by_sub_group: dict[int, list[Any]] = {}
        for param in param_list:
            if param.requires_grad:
                by_sub_group.setdefault(self.grad_position[self.get_param_id(param)][0], []).append(param)
        for param in itertools.chain(*by_sub_group.values()):
            self.set_fp32_grad_for_param(update_func(self.get_fp32_grad_for_param(param), param), param)
        return None

    return update_gradients


def reading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _get_fp32_grad_state_partition and get_fp32_grad_partitions: they read copies and slices."""

    @functools.wraps(original)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        cycle = cycle_of(self)
        if cycle is not None:
            cycle.settle()
        return original(self, *args, **kwargs)

    return read
