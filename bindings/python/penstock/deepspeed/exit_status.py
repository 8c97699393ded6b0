"""The exit status of a process whose last write turns out to have failed while the interpreter ends.

Python has settled on a status before it calls what atexit has registered, and an exception there does not change it.
So the process is ended with status 1 when all of atexit's functions have run and standard output has been flushed: the
interpreter then destroys modules, and with this one the object that ends it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

_flush_c_streams = ctypes.CDLL(None).fflush
_end: _End | None = None
_code_of_script: Any = None  # what sys.exit() was given


class _End:
    """Ends the process when the interpreter destroys it."""

    def __del__(
        self,
        finalizing: Callable[[], bool] = sys.is_finalizing,
        flush: Callable[..., Any] = _flush_c_streams,
        leave: Callable[[int], Any] = os._exit,
    ) -> None:
        if finalizing():
            flush(None)
            leave(1)


def fail() -> None:
    """Lets this process, which is ending, end with status 1, unless it ends with a failure's status already.

    For functions that atexit calls. What other such functions do is still done.
    """
    global _end
    if getattr(sys, "last_value", None) is None and _code_of_script in (None, 0):
        _end = _End()


def remembering_code(original: Callable[..., Any]) -> Callable[..., Any]:
    """For sys.exit: a status that the script has chosen stays."""

    @functools.wraps(original)
    def leave(status: Any = None, /) -> Any:
        global _code_of_script
        _code_of_script = status
        return original(status)

    return leave
