"""What is on its way when parameters are gathered.

Stage 3 begins to gather what its trace says comes next. A pass without a backward leaves some of that unfinished, and
GatheredParameters then fails on leaving: it neither gathered these parameters nor waits for them.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from penstock.deepspeed.self_changing import is_whole, may_write, note_external, note_self_changing
from penstock.errors import ArgumentError

_IN_FLIGHT = "_PartitionedParameterCoordinator__inflight_param_registry"

_FETCHED_FOR = "_PartitionedParameterCoordinator__most_recent_step_id_param_fetched_for"
_STEP = "_PartitionedParameterCoordinator__step_id"
_LATE = "penstock_late_uses"  # of a coordinator: parameters' ds_ids, by the id of a module whose use its trace has not
_CONTEXT = "GatheredParameters"  # among the modules that use a parameter, which are numbers
_AT_START = "penstock_at_start"  # of a parameter: it was in a model when DeepSpeed took that one

_coordinators: weakref.WeakSet[Any] = weakref.WeakSet()


def finish_gathers() -> None:
    """What any coordinator has begun to gather is waited for. It is released, and gathered again when it is used."""
    for coordinator in list(_coordinators):
        _finish(coordinator)


def _finish(coordinator: Any) -> None:
    in_flight = getattr(coordinator, _IN_FLIGHT, None)
    if in_flight and all(_is_its_partition(param) for param in in_flight):
        while in_flight:
            in_flight.popitem()[1].wait()
        return
    finish = getattr(coordinator, "_clean_inflight_param_registry", None)  # from DeepSpeed 0.15 on
    if finish is not None:
        finish()


def _is_its_partition(param: Any) -> bool:
    """Whether a parameter that is gathered has the memory of its partition. With parameters in RAM it is gathered at
    once there, and a change in place stays, so it may not be released on the way.
    """
    from deepspeed.accelerator import get_accelerator

    return is_whole(param) and bool(get_accelerator().is_synchronized_device())


def _expect_changes(params: Iterable[Any], are_certain: bool) -> None:
    from penstock.deepspeed.parameter_swapper import ParameterSwapper

    for param in params:
        swapper = getattr(param, "nvme_swapper", None)
        if isinstance(swapper, ParameterSwapper):
            (swapper.make_changeable if are_certain else swapper.watch)(param)


# Wrappers.


def counted(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of PartitionedParameterCoordinator.__init__."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _coordinators.add(self)

    return init


def entering(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of GatheredParameters.__enter__. With a modifier_rank, the script or DeepSpeed writes into the partitions: no
    forward within the context may release them. With parameters in RAM, DeepSpeed's look-ahead mostly keeps them.
    """

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        if self.enabled and any(param.ds_status.name == "INFLIGHT" for param in self.params):
            finish_gathers()
        result = original(self)
        if self.enabled:
            is_certain = self.src_rank is not None
            _expect_changes(self.params, is_certain)
            for param in self.params if is_certain else ():
                param.ds_active_sub_modules.add(_CONTEXT)
        return result

    return enter


def leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of GatheredParameters.__exit__."""

    @functools.wraps(original)
    def leave(self: Any, *exception: Any) -> Any:
        for param in self.params if self.enabled else ():
            param.ds_active_sub_modules.discard(_CONTEXT)
        return original(self, *exception)

    return leave


def ending_passes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of DeepSpeedZeRoOffload.setup_zero_stage3_hooks: a pass without gradients has no backward to use the rest."""

    @functools.wraps(original)
    def setup(self: Any) -> None:
        original(self)
        note_self_changing(self.module)
        for parameter in self.module.parameters():
            setattr(parameter, _AT_START, True)
        offload = weakref.ref(self)

        def end_of_forward(*_: Any) -> None:
            alive = offload()
            if alive is not None and not torch.is_grad_enabled():
                _finish(alive.get_param_coordinator())

        self.module.register_forward_hook(end_of_forward)

    return setup


def registering(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of register_external_parameter, as forwards call it when a module uses another one's parameter.

    A trace that is complete does not have that use, and DeepSpeed ends in a "tracing error" when it meets it in the
    next pass. With parameters in RAM, its look-ahead hides most such uses. Of a parameter that should be trained and
    came after the engine, that error is all that says that nothing steps it.
    """

    @functools.wraps(original)
    def register(module: Any, parameter: Any) -> Any:
        note_external(parameter)
        result = original(module, parameter)
        for coordinator in list(_coordinators):
            if coordinator.is_complete_trace():
                _refuse_untrained(parameter)
                uses: dict[int, set[int]] = vars(coordinator).setdefault(_LATE, {})
                uses.setdefault(id(module), set()).add(parameter.ds_id)
        return result

    return register


def _refuse_untrained(parameter: Any) -> None:
    if torch.is_grad_enabled() and parameter.requires_grad and not hasattr(parameter, _AT_START):
        raise ArgumentError(
            f"a parameter of shape {list(parameter.ds_shape)} came into the model after deepspeed.initialize: no "
            "optimizer trains it. Freeze it, or make a new engine"
        )


def _leave_to_module(coordinator: Any, module: Any, params: Iterable[Any]) -> None:
    """What the trace does not have of the module's is not looked for in it: it is fetched for the module alone."""
    uses = vars(coordinator).get(_LATE)
    if not uses:
        return
    if not coordinator.is_complete_trace():
        uses.clear()  # the next one will have them
        return
    fetched_for, step, late = getattr(coordinator, _FETCHED_FOR), getattr(coordinator, _STEP), uses.get(id(module), ())
    for param in params:
        if param.ds_id in late:
            fetched_for[param] = max(fetched_for[param], step)


def fetching(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of PartitionedParameterCoordinator.fetch_sub_module, before the forward and the backward of each module."""

    @functools.wraps(original)
    def fetch(self: Any, current_submodule: Any, forward: bool) -> Any:
        from deepspeed.runtime.zero.partitioned_param_coordinator import iter_params

        is_leaf = getattr(current_submodule, "_z3_leaf", False)
        _leave_to_module(self, current_submodule, iter_params(current_submodule, recurse=is_leaf))
        result = original(self, current_submodule, forward)
        if may_write(current_submodule):
            _expect_changes(iter_params(current_submodule, recurse=is_leaf), are_certain=False)
        return result

    return fetch
