"""Parameters that their module changes while it runs: an embedding with `max_norm` scales the rows that it looks up.

Of one rank on the CPU, a gathered parameter is its partition, so that the change stays. Here it is written back when
the partition is released; what other readers share must not change under them. Of several ranks, and on a device, the
change ends with the gathered copy, as without penstock.
"""

from __future__ import annotations

from typing import Any

from torch import distributed, nn

_ATTRIBUTE = "penstock_version"  # torch's count of changes in place, as it was when the partition was last written


def note_self_changing(model: nn.Module) -> None:
    if distributed.get_world_size() > 1:
        return
    for module in model.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None:
            setattr(module.weight, _ATTRIBUTE, module.weight._version)


def is_self_changing(param: Any) -> bool:
    return hasattr(param, _ATTRIBUTE)


def has_changed(param: Any) -> bool:
    """Whether it was changed in place since it was last asked."""
    if not is_self_changing(param) or getattr(param, _ATTRIBUTE) == param._version:
        return False
    setattr(param, _ATTRIBUTE, param._version)
    return True
