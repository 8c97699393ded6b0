"""All ranks save, load or step, or none does: what goes wrong in one is an error of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch

from penstock.errors import Error, StorageError

T = TypeVar("T")
Failure = tuple[int, str, "int | None"]  # rank, what it says, errno


def gathered(value: Any, group: Any = None) -> list[Any]:
    """Each rank's value, in order of ranks. All ranks call it, or all of a process group."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size(group) == 1:
        return [value]
    values: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(values, value, group)
    return values


def together(work: Callable[[], T], group: Any = None) -> T:
    """Each rank's work, which has no collective in it. Raises where it fails in any rank: here its own error, elsewhere
    one that names the ranks that failed, a StorageError where a file system refuses. All ranks call it, or all of a
    process group.
    """
    result: Any = None
    error: BaseException | None = None
    try:
        result = work()
    except BaseException as failure:  # of an interrupt, too, the other ranks have to know
        error = failure
    failures = gathered(said(error), group)
    if error is not None:
        try:
            raise error
        finally:
            error = None  # its traceback holds this frame: the cycle would keep all that the work has made
    if any(failures):
        raise of_others(failures)
    return result  # type: ignore[no-any-return]


def said(error: BaseException | None) -> Failure | None:
    """As other ranks will have it."""
    if error is None:
        return None
    number = error.errno if isinstance(error, OSError) else None
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    kind, text = type(error).__name__, str(error)
    if not text or isinstance(error, (Error, OSError)):  # theirs are sentences
        return rank, text or kind, number
    return rank, f"{kind}: {text}", number


def of_others(failures: Iterable[Failure | None], consequence: str = "") -> Error:
    """The error of a rank that has not failed, where others have."""
    failed = [failure for failure in failures if failure is not None]
    text = f"other ranks have failed: {'; '.join(f'rank {rank}: {what}' for rank, what, _ in failed)}{consequence}"
    number = next((number for *_, number in failed if number is not None), None)
    return Error(text) if number is None else StorageError(number, text)
