"""Processes that multiprocessing starts anew (`spawn`, `forkserver`) begin as any interpreter: with nothing installed.

What such a process needs to begin is pickled for it by multiprocessing. Something of ours travels along: being
unpickled, it installs penstock there as `python -m penstock.deepspeed` would, before the script's module is imported.
So it does in a child's children. A fork takes along what is installed as it is.
"""

from __future__ import annotations

import functools
import multiprocessing.spawn as spawning
from collections.abc import Callable
from pathlib import Path
from typing import Any

_original: Callable[..., dict[str, Any]] | None = None


class _Beginning:
    """The child learns where packages are found only after this was unpickled: so it says it itself, in words that
    every interpreter understands. The child then forgets it again.
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        found_in = str(Path(__file__).resolve().parents[2])
        return exec, (
            f"import sys; sys.path.append({found_in!r}); "
            "from penstock.deepspeed.import_hook import install_when_imported; install_when_imported()",
        )


def install_in_children() -> None:
    """Idempotent."""
    global _original
    if _original is not None:
        return
    prepare = _original = spawning.get_preparation_data

    @functools.wraps(prepare)
    def with_penstock(name: str) -> dict[str, Any]:
        return {**prepare(name), "penstock": _Beginning()}

    spawning.get_preparation_data = with_penstock


def leave_children_alone() -> None:
    """Idempotent."""
    global _original
    if _original is not None:
        spawning.get_preparation_data, _original = _original, None
