"""What runs with an optimizer's step, and sees what is stepped: code of the script, torch's GradScaler. It needs the
whole sub-group.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

from torch.optim import optimizer as torch_optimizer

HOOKED = "hooks of its step look at whole sub-groups"
_SCALED = "torch's GradScaler looks at whole gradients"
_OF_THE_OPTIMIZER = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_OF_ALL = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
_LOOKS_AT_NOTHING = "torch.profiler"  # counts steps
_OF_SCHEDULERS = ("_wrapped_by_lr_sched", "_with_counter")  # by version of torch


def why_whole(stage3: Any) -> str | None:
    """Why the next step has to be that of a whole sub-group; None: nothing looks at it.

    DeepSpeed makes the GradScaler (`torch_autocast` with float16) after the swapper, and steps through it.
    """
    if getattr(stage3, "torch_autocast_gradscaler", None) is not None:
        return _SCALED
    return HOOKED if is_hooked(stage3.optimizer) else None


def keep_scale_on_host(stage3: Any, number: int) -> None:
    """Of gradients in host memory. torch's GradScaler copies its scale to where gradients are without waiting for the
    copy (_MultiDeviceReplicator), so that a scale on a GPU may come after the first gradients were multiplied by it.
    """
    scaler = getattr(stage3, "torch_autocast_gradscaler", None)
    if scaler is None or stage3.fp32_partitioned_groups_flat[number].device.type != "cpu":
        return
    for name in ("_scale", "_growth_tracker"):
        value = getattr(scaler, name, None)  # None before the first backward
        if value is not None:
            setattr(scaler, name, value.cpu())


def is_hooked(optimizer: Any) -> bool:
    """Whether its step has hooks, or is a function that the script has put there or on its class. Each may come and
    go.
    """
    if any(getattr(optimizer, name, None) for name in _OF_THE_OPTIMIZER):
        return True
    for name in _OF_ALL:
        hooks = getattr(torch_optimizer, name, {}).values()
        if any(getattr(hook, "__module__", None) != _LOOKS_AT_NOTHING for hook in hooks):
            return True
    own = vars(optimizer).get("step")
    if own is not None and not _is_of_scheduler(own, optimizer):
        return True
    return _is_wrapped(type(optimizer))


def _is_of_scheduler(step: Any, optimizer: Any) -> bool:
    """torch's schedulers wrap the step of their optimizer, to see that it comes before theirs."""
    is_marked = any(hasattr(step, name) for name in _OF_SCHEDULERS)
    return is_marked and getattr(step, "__wrapped__", None) is type(optimizer).step


def _is_wrapped(kind: type) -> bool:
    """Whether the step of the class is, or holds, a function that is neither torch's nor of a module of the class.

    A function knows the module of its code by its globals; its `__module__` may be that of what it wraps.
    """
    own = {base.__module__ for base in kind.__mro__}

    def is_own(step: Any) -> bool:
        module = step.__globals__.get("__name__", "") if isinstance(step, types.FunctionType) else ""
        return module in own or module.startswith("torch.")

    step = inspect.getattr_static(kind, "step", None)
    return not is_own(inspect.unwrap(step, stop=lambda step: not is_own(step)))
