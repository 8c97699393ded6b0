"""All ranks save, or load, or none does: what goes wrong in one is an error of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from penstock.errors import Error, StorageError

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
    one that names the ranks that failed, a StorageError where a file system refuses. All ranks call it.
    """
    result: Any = None
    error: BaseException | None = None
    try:
        result = work()
    except BaseException as failure:  # of an interrupt, too, the other ranks have to know
        error = failure
    number = error.errno if isinstance(error, OSError) else None
    errors = gathered(None if error is None else (str(error) or type(error).__name__, number))
    if error is not None:
        try:
            raise error
        finally:
            error = None  # its traceback holds this frame: the cycle would keep all that the work has made
    failed = {rank: of_rank for rank, of_rank in enumerate(errors) if of_rank is not None}
    if failed:
        text = f"other ranks have failed: {'; '.join(f'rank {rank}: {said}' for rank, (said, _) in failed.items())}"
        number = next((number for _, number in failed.values() if number is not None), None)
        raise Error(text) if number is None else StorageError(number, text)
    return result  # type: ignore[no-any-return]
