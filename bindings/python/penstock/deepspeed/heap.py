"""malloc's free lists, which grow by the size of a model while one is built and loaded."""

from __future__ import annotations

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def return_free_heap() -> None:
    """Gives what is free back to the system, which glibc does not by itself. Milliseconds."""
    if _trim is not None:
        _trim(0)


class HeapWatch:
    """Returns free heap each time so many bytes have gone through temporaries of the caller's."""

    def __init__(self, every_bytes: int = 256 << 20) -> None:
        self._every_bytes = every_bytes
        self._since = 0

    def passed(self, nbytes: int) -> None:
        self._since += nbytes
        if self._since >= self._every_bytes:
            self._since = 0
            return_free_heap()
