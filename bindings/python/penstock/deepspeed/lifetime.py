"""What would keep an engine, and with it files, RAM and pinned memory, after the script has dropped it.

DeepSpeed holds models and coordinators in globals, and optimizers in hooks that Python's collector cannot look into.
Here these hold weakly. What the objects do while they live stays the same.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_Hooks = dict[int, Callable[[Any], Any]]


def destroying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of the stage-3 optimizer's destroy, after which nothing is stepped: masters and states are given up."""
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

    @functools.wraps(original)
    def destroy(self: Any) -> Any:
        try:
            return original(self)
        finally:
            if isinstance(self.optimizer_swapper, OptimizerSwapper):
                self.optimizer_swapper.close()

    return destroy


def stacking(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of DeepSpeedZeRoOffload.setup_zero_stage3_hooks, which puts the model on a global stack and leaves it there. A
    forward that an exception ends leaves its modules, and so does each recomputation of
    `checkpoint(use_reentrant=False)`, which ends itself that way.
    """

    @functools.wraps(original)
    def setup(self: Any) -> None:
        from deepspeed.runtime.zero import parameter_offload

        parameter_offload.FWD_MODULE_STACK = _WeakStack(parameter_offload.FWD_MODULE_STACK)
        original(self)

    return setup


class _WeakStack:
    """What DeepSpeed does with its list, over the modules that live."""

    def __init__(self, modules: Iterable[Any]) -> None:
        self._modules = [weakref.ref(module) for module in modules]

    def append(self, module: Any) -> None:
        self._modules.append(weakref.ref(module))

    def pop(self) -> Any:
        return self._modules.pop()()

    def __iter__(self) -> Iterator[Any]:
        return (module for reference in self._modules if (module := reference()) is not None)

    def __getitem__(self, index: int) -> Any:
        return list(self)[index]


def naming(original: Callable[..., None]) -> Callable[..., None]:
    """Of debug_extract_module_and_param_names, whose names are for debug output: before DeepSpeed 0.19.7 a dict with
    the model's parts as keys, which only the next engine replaces.
    """

    @functools.wraps(original)
    def extract(model: Any) -> None:
        from deepspeed.utils import debug

        original(model)
        for kind in ("module_names", "param_names"):
            names = getattr(debug, kind, None)
            if isinstance(names, dict):
                setattr(debug, kind, _WeakNames(names))

    return extract


class _WeakNames:
    """By identity: a weak dict would compare tensors."""

    def __init__(self, names: dict[Any, str]) -> None:
        self._names = {id(owner): (weakref.ref(owner), name) for owner, name in names.items()}

    def __contains__(self, owner: Any) -> bool:
        known = self._names.get(id(owner))
        return known is not None and known[0]() is owner

    def __getitem__(self, owner: Any) -> str:
        return self._names[id(owner)][1]


def hooking(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of the stage-3 optimizer's create_reduce_and_remove_grad_hooks: parameters hold these hooks where the collector
    does not see them, and the hooks hold the optimizer; those of a script may hold the model. Now the optimizer holds
    its own, and the parameter a script's where they are seen.
    """

    @functools.wraps(original)
    def create(self: Any) -> None:
        params = [param for group in self.fp16_groups for param in group]
        _release_whole(params)
        for param in params:
            param.__dict__.pop("register_post_accumulate_grad_hook", None)  # of an engine before this one
            held = param.__dict__.setdefault("penstock_hooks", {})
            _hold_weakly(param, set(_hooks_of(param)) - set(held), held)
        try:
            original(self)
        finally:  # it gathers, so an exception (Ctrl-C, say) may end it with some of the hooks in place
            self.penstock_hooks = [{} for _ in params]
            for param, held in zip(params, self.penstock_hooks, strict=True):
                _hold_weakly(param, set(_hooks_of(param)) - set(param.penstock_hooks), held)
                param.register_post_accumulate_grad_hook = types.MethodType(_register, param)

    return create


def _register(param: Any, hook: Callable[[Any], Any]) -> Any:
    """A script's hook that comes after its engine."""
    handle = type(param).register_post_accumulate_grad_hook(param, hook)
    _hold_weakly(param, [handle.id], param.penstock_hooks)
    return handle


def _hold_weakly(param: Any, keys: Iterable[int], held: dict[int, _Held]) -> None:
    hooks = _hooks_of(param)
    for key in keys:
        held[key] = _Held(hooks[key])
        hooks[key] = held[key].weakly()


def _hooks_of(param: Any) -> _Hooks:
    hooks: _Hooks | None = getattr(param, "_post_accumulate_grad_hooks", None)
    return {} if hooks is None else hooks


class _Held:
    """A hook, which may be an object that nothing can refer to weakly, for as long as its parameter has it."""

    def __init__(self, hook: Callable[[Any], Any]) -> None:
        self.hook: Callable[[Any], Any] | None = hook

    def weakly(self) -> Callable[[Any], Any]:
        reference = weakref.ref(self)

        def call(param: Any) -> Any:
            alive = reference()
            return None if alive is None or alive.hook is None else alive.hook(param)

        call.__module__ = str(getattr(self.hook, "__module__", ""))  # by which a script's hooks are known
        self._in_use = weakref.ref(call, self._removed)
        return call

    def _removed(self, _: Any) -> None:
        self.hook = None


def _release_whole(params: Iterable[Any]) -> None:
    """Parameters that an earlier engine of this model has left gathered, while this one has put their partitions on the
    drive: stage 3 gathers each again at once, and takes one that is gathered already for a mistake.
    """
    for param in params:
        on_drive = param.ds_tensor.status.name == "NOT_AVAILABLE"
        if on_drive and param.ds_status.name == "AVAILABLE":
            param.partition()


def remembering_itself(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of PartitionedParameterCoordinator.__params_to_release: its cache belongs to the class, so no coordinator and no
    model that was ever trained would be collected. Here each coordinator has its own.
    """
    within = (cell.cell_contents for cell in getattr(original, "__closure__", None) or ())
    cached = next((function for function in (original, *within) if hasattr(function, "cache_clear")), None)
    if cached is None:
        return original
    compute = cached.__wrapped__

    @functools.wraps(original)
    def params_to_release(self: Any, submodule_to_release: Any, step_id: int) -> Any:
        known = self.__dict__.setdefault("penstock_releases", {})
        key = (submodule_to_release, step_id)
        if key not in known:
            known[key] = compute(self, submodule_to_release, step_id)
        return known[key]

    return params_to_release
