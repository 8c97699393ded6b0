"""What two checkpoints have in common."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import torch

# Of two ranks the second has an element of padding at the end of the first master of a model with an odd matrix, and of
# its states, which weight decay makes from it. DeepSpeed does not initialize it.
_PADDED = re.compile(
    "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt/optimizer_state_dict/"
    "(fp32_flat_groups/0|optimizer_state_dict/state/0/[a-z_]+)"
)


def differences(ours: Path, theirs: Path, has_padding: bool = False) -> list[str]:
    """Between two directories of a tag: files, keys, tensors; `ds_config` aside. has_padding: and that element."""
    names, others = (sorted(path.name for path in directory.iterdir()) for directory in (ours, theirs))
    if names != others:
        return [f"files: {names} and {others}"]
    found: list[str] = []
    for name in names:
        assert zipfile.ZipFile(ours / name).testzip() is None, "every CRC-32 is right"
        _walk(_load(ours / name), _load(theirs / name), name, found, has_padding)
    return found


def _load(path: Path) -> Any:
    return torch.load(path, weights_only=False)


def _walk(one: Any, other: Any, where: str, found: list[str], has_padding: bool) -> None:
    if type(one) is not type(other):
        found.append(f"{where}: {type(one)} and {type(other)}")
    elif torch.is_tensor(one):
        same = one.shape == other.shape and one.dtype == other.dtype and one.requires_grad == other.requires_grad
        if has_padding and one.dim() == 1 and _PADDED.fullmatch(where):
            one, other = one[:-1], other[:-1]
        if not (same and one.device == other.device and torch.equal(one, other)):
            found.append(f"{where}: {one.shape} {one.dtype} and {other.shape} {other.dtype}, or other numbers")
    elif isinstance(one, dict):
        if list(one) != list(other):
            found.append(f"{where}: {list(one)} and {list(other)}")
        for key in one.keys() & other.keys() - {"ds_config"}:
            _walk(one[key], other[key], f"{where}/{key}", found, has_padding)
    elif isinstance(one, (list, tuple)):
        if len(one) != len(other):
            found.append(f"{where}: {len(one)} and {len(other)}")
        for number, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            _walk(mine, theirs, f"{where}/{number}", found, has_padding)
    elif hasattr(one, "__dict__"):
        _walk(vars(one), vars(other), f"{where}.__dict__", found, has_padding)
    elif one != other:
        found.append(f"{where}: {one} and {other}")


def copy_of(directory: Path, tag: str, name: str) -> Path:
    """Another tag with the same files."""
    shutil.copytree(directory / tag, directory / name)
    return directory / name


def convert(directory: str, tag: str) -> None:
    """To the universal checkpoint `universal`, as DeepSpeed's command does it, in this process."""
    from argparse import Namespace

    from deepspeed.checkpoint import ds_to_universal

    ds_to_universal.main(
        Namespace(
            input_folder=f"{directory}/{tag}",
            output_folder=f"{directory}/universal",
            num_extract_workers=1,
            num_merge_workers=1,
            keep_temp_folder=False,
            strict=True,
            inject_missing_state=False,
        )
    )
