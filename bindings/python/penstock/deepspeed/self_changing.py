"""Parameters that a forward changes in place: an embedding with `max_norm` scales the rows that it looks up, a layer
may clamp its weight.

Of one rank on the CPU, a gathered parameter is its partition, so that the change stays: here it is written back when
the partition is released. Of several ranks, and on a device, it ends with the gathered copy, as without penstock.
"""

from __future__ import annotations

from typing import Any

from torch import distributed, nn

_ATTRIBUTE = "penstock_changes_itself"


def note_self_changing(model: nn.Module) -> None:
    """Those that are known beforehand: their memory is not shared with other readers."""
    if distributed.get_world_size() > 1:
        return
    for module in model.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None:
            setattr(module.weight, _ATTRIBUTE, True)


def is_self_changing(param: Any) -> bool:
    return hasattr(param, _ATTRIBUTE)


def count_of_changes(param: Any) -> int | None:
    """torch's count of changes in place; None: a change would not stay, or is not counted."""
    if param.is_inference() or distributed.get_world_size() > 1:
        return None
    count: int = param._version
    return count
