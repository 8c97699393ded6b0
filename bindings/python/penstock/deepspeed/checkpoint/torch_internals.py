"""What torch has and does not promise."""

from __future__ import annotations

from typing import Any

import torch

from penstock.errors import UnsupportedError


def require_torch() -> None:
    """Raises UnsupportedError where torch lacks what saving and loading build on."""
    for owner, name in (
        (torch.serialization, "_save"),
        (torch.serialization, "_load"),
        (torch.storage, "_new_dtypes"),
        (torch._C.PyTorchFileWriter, "write_record_metadata"),
    ):
        if not hasattr(owner, name):
            raise UnsupportedError(
                f"checkpoints of swapped tensors need torch 2.6 or newer: torch {torch.__version__} has no {name}"
            )


def private(owner: Any, name: str) -> Any:
    """require_torch() looks for it."""
    return getattr(owner, name)
