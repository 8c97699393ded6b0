"""All ranks save, or load, or none does: what goes wrong in one is an error of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from penstock.errors import Error

T = TypeVar("T")


def gathered(value: Any) -> list[Any]:
    """Each rank's value, in order of ranks. All ranks call it."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return [value]
    values: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def together(work: Callable[[], T]) -> T:
    """Each rank's work, which has no collective in it. Raises where it fails in any rank: here its own error, elsewhere
    one that names the ranks that failed. All ranks call it.
    """
    result: Any = None
    error: Exception | None = None
    try:
        result = work()
    except Exception as failure:
        error = failure
    errors = gathered(None if error is None else str(error))
    if error is not None:
        raise error
    failed = [f"rank {rank}: {text}" for rank, text in enumerate(errors) if text is not None]
    if failed:
        raise Error(f"other ranks have failed: {'; '.join(failed)}")
    return result  # type: ignore[no-any-return]
