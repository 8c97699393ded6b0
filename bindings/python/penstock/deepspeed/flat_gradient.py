"""DeepSpeed's flat buffer of gradients, of which each sub-group has a slice in the dtype of accumulation."""

from __future__ import annotations

from typing import Any

import torch


def flat_gradient(stage3: Any, master: torch.Tensor) -> torch.Tensor | None:
    """The slice of the sub-group that has this flat master; None: there is no buffer."""
    flat: torch.Tensor | None = getattr(stage3, "grad_partitions_flat_buffer", None)
    if flat is None:
        return None
    masters, numels = stage3.fp32_partitioned_groups_flat, stage3.fp16_partitioned_groups_flat_numel
    offset = 0
    for other, numel in zip(masters, numels, strict=True):
        if other is master:
            return flat.narrow(0, offset, int(numel))
        offset += int(numel)
    return None
