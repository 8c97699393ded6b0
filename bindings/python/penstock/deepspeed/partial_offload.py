"""`offload_optimizer.ratio`: a part of the sub-groups stays on the device and is stepped there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def staying_on_device(original: Callable[..., bool]) -> Callable[..., bool]:
    """For the stage-3 optimizer's question whether it swaps a sub-group: none that belongs to the device.

    DeepSpeed steps those with an optimizer of their own, whose states the swapper would never see.
    """

    @functools.wraps(original)
    def swappable(self: Any, sub_group_id: int) -> bool:
        device = getattr(self, "subgroup_to_device", {}).get(sub_group_id, "cpu")
        return device == "cpu" and original(self, sub_group_id)

    return swappable
