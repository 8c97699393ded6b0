"""What two checkpoints have in common."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import torch


def differences(ours: Path, theirs: Path) -> list[str]:
    """Between two directories of a tag: files, keys, tensors; `ds_config` aside."""
    names, others = (sorted(path.name for path in directory.iterdir()) for directory in (ours, theirs))
    if names != others:
        return [f"files: {names} and {others}"]
    found: list[str] = []
    for name in names:
        assert zipfile.ZipFile(ours / name).testzip() is None, "every CRC-32 is right"
        _walk(_load(ours / name), _load(theirs / name), name, found)
    return found


def _load(path: Path) -> Any:
    return torch.load(path, weights_only=False)


def _walk(one: Any, other: Any, where: str, found: list[str]) -> None:
    if type(one) is not type(other):
        found.append(f"{where}: {type(one)} and {type(other)}")
    elif torch.is_tensor(one):
        same = one.shape == other.shape and one.dtype == other.dtype and one.requires_grad == other.requires_grad
        if not (same and one.device == other.device and torch.equal(one, other)):
            found.append(f"{where}: {one.shape} {one.dtype} and {other.shape} {other.dtype}, or other numbers")
    elif isinstance(one, dict):
        if list(one) != list(other):
            found.append(f"{where}: {list(one)} and {list(other)}")
        for key in one.keys() & other.keys() - {"ds_config"}:
            _walk(one[key], other[key], f"{where}/{key}", found)
    elif isinstance(one, (list, tuple)):
        if len(one) != len(other):
            found.append(f"{where}: {len(one)} and {len(other)}")
        for number, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            _walk(mine, theirs, f"{where}/{number}", found)
    elif hasattr(one, "__dict__"):
        _walk(vars(one), vars(other), f"{where}.__dict__", found)
    elif one != other:
        found.append(f"{where}: {one} and {other}")


def copy_of(directory: Path, tag: str, name: str) -> Path:
    """Another tag with the same files."""
    shutil.copytree(directory / tag, directory / name)
    return directory / name
