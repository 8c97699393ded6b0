"""Parameters that are changed in place while they are gathered: an embedding with `max_norm` scales the rows that it
looks up, a layer may clamp its weight, a script merges an adapter.

Where one rank has all of it, on the CPU, a gathered parameter is its partition, so that the change stays: here it is
written back when the partition is released. Of several ranks, and on a device, it ends with the gathered copy, as
without penstock.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import distributed, nn

from penstock._core import checksum

_ATTRIBUTE = "penstock_changes_itself"
_ROW_BYTES = 16384
_SAMPLE_BYTES = 64  # of each row
_WHOLE_ROWS = 4  # so many are looked at whole


def note_self_changing(model: nn.Module) -> None:
    """Those that are known beforehand: their memory is not shared with other readers."""
    for module in model.modules():
        changes = isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None
        if changes and is_whole(module.weight):
            setattr(module.weight, _ATTRIBUTE, True)


def is_whole(param: Any) -> bool:
    """Whether one rank has all of it: the only one, or one that is a data-parallel group by itself."""
    return distributed.get_world_size(getattr(param, "ds_process_group", None)) == 1


def is_self_changing(param: Any) -> bool:
    return hasattr(param, _ATTRIBUTE)


class ContentState(NamedTuple):
    """Of a partition in memory: another one if it was changed in between."""

    changes: int | None  # that torch has counted; None: it does not count them
    checksum: int
    has_all_bytes: bool  # or of a sample


def state_of_content(param: Any, has_all_bytes: bool = False) -> ContentState | None:
    """None: a change would not stay.

    torch counts changes of the parameter, but not those through its `.data`: PEFT merges adapters that way. Where a
    script has gathered the parameter these are looked for in all bytes, in passes in a sample.
    """
    if not is_whole(param):
        return None
    data = param.ds_tensor.data
    changes = None if param.is_inference() else int(param._version)
    return ContentState(changes, _sum(data) if has_all_bytes else _sample_sum(data), has_all_bytes)


def is_changed(param: Any, since: ContentState | None) -> bool:
    return since is not None and since != state_of_content(param, since.has_all_bytes)


def state_of_all(param: Any, since: ContentState | None) -> ContentState | None:
    """From here on all bytes count. What has changed `since` still shows."""
    if since is None or since.has_all_bytes or is_changed(param, since):
        return since
    return state_of_content(param, has_all_bytes=True)


def _sum(data: torch.Tensor) -> int:
    return checksum(data.detach().view(torch.uint8))


def _sample_sum(data: torch.Tensor) -> int:
    """A sum of all bytes of what is small, else of the first 64 of every 16384."""
    row = _ROW_BYTES // data.element_size()
    if data.numel() > _WHOLE_ROWS * row:
        rows = data.numel() // row
        data = data.narrow(0, 0, rows * row).view(rows, row).narrow(1, 0, row * _SAMPLE_BYTES // _ROW_BYTES)
    return _sum(data.contiguous())
