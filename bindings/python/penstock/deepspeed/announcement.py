"""One line where a configuration has nothing to swap, so that the user does not believe otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock import messages


def announcing(original: Callable[..., None]) -> Callable[..., None]:
    """For the engine's constructor."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        reason = _nothing_to_swap(self)
        if reason and getattr(self, "global_rank", 0) == 0:
            messages.note(f"nothing to swap ({reason}); DeepSpeed runs unchanged")

    return init


def _nothing_to_swap(engine: Any) -> str | None:
    zero = engine._config.zero_config
    devices = {
        key: str(getattr(offload, "device", None) or "none").rpartition(".")[2]
        for key in ("offload_param", "offload_optimizer")
        for offload in [getattr(zero, key)]
    }
    if "nvme" not in devices.values():
        return ", ".join(f"{key}: {device}" for key, device in devices.items())
    stage = int(zero.stage)
    if stage < 3:
        return f"ZeRO stage {stage} keeps in RAM what the configuration keeps on NVMe; stage 3 swaps"
    return None
