"""torch.optim.Adagrad, whose states exist from its construction on.

DeepSpeed constructs it anew when all masters are known. A swapped master is an empty tensor then, and so is the state
that the new optimizer makes for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock.deepspeed import plain_tensors


def with_swapped_sums(original: Callable[..., None]) -> Callable[..., None]:
    """For the stage-3 optimizer's function that initializes the states: gives swapped sub-groups whole sums."""

    @functools.wraps(original)
    def initialize(self: Any) -> None:
        original(self)
        swapper = self.optimizer_swapper
        if swapper is None or not isinstance(self.optimizer, torch.optim.Adagrad):
            return
        first = float(self.optimizer.defaults["initial_accumulator_value"])
        for index, master in enumerate(self.fp32_partitioned_groups_flat):
            if self._swappable_optimizer_subgroup(index):
                group = swapper.group(master)
                sums = (plain_tensors.full(numel, first, swapper.dtype) for _, numel in group.cuts)
                swapper.initialize_state(master, "sum", sums)

    return initialize
