"""The names by which users know parameters.

DeepSpeed's swappers see parameters without names, and zero.Init partitions them before the model is complete.
So every module that is finished, innermost first, writes its parameters' names relative to itself on them; when
the outermost one is finished they carry the model's own names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_ATTRIBUTE = "penstock_name"


def name_parameters(module: Any, only_unnamed: bool = False) -> None:
    for name, param in module.named_parameters():
        if not only_unnamed or full_name(param) is None:
            setattr(param, _ATTRIBUTE, own_name(name))


def own_name(name: str) -> str:
    """Without what PEFT's wrappers add: the name in the model's files, which `penstock plan` has."""
    return name.removeprefix("base_model.model.").replace(".base_layer.", ".")


def named_init(original: Callable[..., None]) -> Callable[..., None]:
    """For zero.Init's constructor: a module that exists already has all its names."""

    @functools.wraps(original)
    def init(self: Any, module: Any = None, *args: Any, **kwargs: Any) -> None:
        if module is not None:
            name_parameters(module)
        original(self, module, *args, **kwargs)

    return init


def named_post_init(original: Callable[..., None]) -> Callable[..., None]:
    """A module is finished: its parameters have names relative to it, and its ties are made."""
    from penstock.deepspeed.session import current_session

    @functools.wraps(original)
    def post_init(self: Any, module: Any) -> None:
        name_parameters(module)
        original(self, module)
        session = current_session()
        if session is not None:
            session.plan_is_stale = True

    return post_init


def named_conversion(original: Callable[..., None]) -> Callable[..., None]:
    """Of DeepSpeedZeRoOffload._convert_to_zero_parameters: what zero.Init has not seen (PEFT's adapters) gets its names
    before the engine partitions it.
    """

    @functools.wraps(original)
    def convert(self: Any, ds_config: Any, module: Any, mpu: Any) -> None:
        name_parameters(module, only_unnamed=True)
        original(self, ds_config, module, mpu)

    return convert


def first_name(param: Any) -> str:
    """Unique, for the time before the model is complete: number, what is known of the name, shape."""
    name = getattr(param, _ATTRIBUTE, "")
    return f"parameter #{param.ds_id} ({name or 'unnamed'}, {list(getattr(param, 'ds_shape', ()))})"


def full_name(param: Any) -> str | None:
    """The name within the model, None where it was not set."""
    return getattr(param, _ATTRIBUTE, None)
