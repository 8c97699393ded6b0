"""What saving and loading do while something is swapped.

DeepSpeed's checkpoint of NVMe states is a copy of a folder, which it cannot restore exactly: moments, steps and
small groups are lost without a word. Until penstock writes its own, the call fails before anything is written;
`save_pretrained`, `save_16bit_model` and PEFT's saving gather parameters and work as always.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock.errors import UnsupportedError


def refusing_to_save(original: Callable[..., Any]) -> Callable[..., Any]:
    return _guard(original, "saved")


def refusing_to_load(original: Callable[..., Any]) -> Callable[..., Any]:
    return _guard(original, "loaded")


def _guard(original: Callable[..., Any], verb: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def guarded(self: Any, directory: Any, *args: Any, **kwargs: Any) -> Any:
        swapped = _what_is_swapped(self)
        if swapped:
            raise UnsupportedError(
                f"a DeepSpeed checkpoint cannot be {verb} exactly while {swapped} on NVMe, so nothing was "
                f"{'written to' if verb == 'saved' else 'read from'} {directory}. Use save_pretrained() or "
                'save_16bit_model() for the weights, or "device": "cpu" where training must be resumed'
            )
        return original(self, directory, *args, **kwargs)

    return guarded


def _what_is_swapped(engine: Any) -> str | None:
    from penstock.deepspeed.parameter_swapper import ParameterSwapper

    optimizer = getattr(engine, "optimizer", None)
    parts = []
    if any(
        isinstance(getattr(param, "nvme_swapper", None), ParameterSwapper)
        and str(param.ds_tensor.final_location).endswith("nvme")
        for param in engine.module.parameters()
    ):
        parts.append("parameters")
    if getattr(optimizer, "optimizer_swapper", None) is not None:
        parts.append("optimizer states")
    return f"{' and '.join(parts)} are" if parts else None
