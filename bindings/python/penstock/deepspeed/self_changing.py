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
_SHARED = "penstock_is_used_elsewhere"
_READERS = (nn.Linear, nn.Embedding, nn.EmbeddingBag, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LayerNorm, nn.Bilinear)
# torch.nn.modules.module keeps those of register_module_forward_hook() and the like there.
_HOOKS_OF_ALL = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)
_ROW_BYTES = 16384
_SAMPLE_BYTES = 64  # of each row
_WHOLE_ROWS = 4  # what is not larger is compared in all bytes


def note_self_changing(model: nn.Module) -> None:
    """Those that are known beforehand: their memory is not shared with other readers."""
    for module in model.modules():
        changes = isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None
        if changes and is_whole(module.weight):
            setattr(module.weight, _ATTRIBUTE, True)


def note_external(param: Any) -> None:
    """Another module than its own uses it: DeepSpeed learns of that first use in the middle of a forward."""
    setattr(param, _SHARED, True)


def is_whole(param: Any) -> bool:
    """Whether one rank has all of it: the only one, or one that is a data-parallel group by itself."""
    return distributed.get_world_size(getattr(param, "ds_process_group", None)) == 1


def is_self_changing(param: Any) -> bool:
    return hasattr(param, _ATTRIBUTE)


def may_write(module: nn.Module) -> bool:
    """Whether the forward or the backward of a module may write into its parameters: torch's own layers do not, where a
    script has put nothing beside them. `max_norm` is known beforehand, and torch counts that change.
    """
    if type(module) not in _READERS or "forward" in module.__dict__ or not _is_of_torch(type(module).forward):
        return True
    hooks = [module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks]
    hooks += [getattr(nn.modules.module, name, {}) for name in _HOOKS_OF_ALL]
    for param in module.parameters(recurse=False):
        hooks += [param._backward_hooks or {}, getattr(param, "_post_accumulate_grad_hooks", None) or {}]
    return any(_is_of_script(hook) for by_id in hooks for hook in by_id.values())


def _is_of_torch(forward: Any) -> bool:
    """A script may have replaced the method of the class. A function knows by its globals where its code stands."""
    return str(getattr(forward, "__globals__", {}).get("__name__", "")).startswith("torch.")


def _is_of_script(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).partition(".")[0] not in ("deepspeed", "penstock")


class ContentState(NamedTuple):
    """Of a partition in memory: another one if it was changed in between."""

    changes: int | None  # that torch has counted; None: it does not count them
    checksum: int
    has_all_bytes: bool  # or of a sample


def state_of_content(param: Any, has_all_bytes: bool = False) -> ContentState | None:
    """None: a change would not stay.

    torch counts changes of the parameter, but not those through its `.data`: PEFT merges adapters that way. Where a
    script has gathered the parameter, or a module that may write uses it, these are looked for in all bytes. Elsewhere
    in a sample: a sum of all weights in each pass costs 0.1 s a GB.
    """
    if not is_whole(param):
        return None
    data = param.ds_tensor.data
    is_small = data.numel() * data.element_size() <= _WHOLE_ROWS * _ROW_BYTES
    has_all_bytes = has_all_bytes or is_small or hasattr(param, _SHARED)
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
    """Of the first 64 bytes of every 16384."""
    row = _ROW_BYTES // data.element_size()
    rows = data.numel() // row
    data = data.narrow(0, 0, rows * row).view(rows, row).narrow(1, 0, row * _SAMPLE_BYTES // _ROW_BYTES)
    return _sum(data.contiguous())
