"""What torch writes of an archive by itself: all of the file but the contents that are reserved in it.

torch's writer is C++ that calls Python for each part. Where such a call raises, an interrupt included, torch ends the
process when the writer goes. So the parts go to memory, which refuses none, in a thread of their own: an interrupt
reaches the main thread only.
"""

from __future__ import annotations

import _thread
import os
import traceback
from collections.abc import Callable
from typing import Any

import torch

from penstock.errors import StorageError

# The main thread looks again after so long, should an interrupt have come just when it was woken.
_LOOK_S = 0.5


class ArchiveFrame:
    def __init__(self) -> None:
        self._parts: list[tuple[int, bytes]] = []
        self._offset = 0

    def fill(self, lay_out: Callable[[Any], None], alignment: int) -> None:
        """Calls `lay_out` with torch's writer. Errors: its own; an interrupt, once the writer has gone."""
        file: Any = self  # it has what torch calls, and not all that torch's types ask for
        has_ended, outcome = _thread.allocate_lock(), list[BaseException | None]()
        has_ended.acquire()

        def run() -> None:
            try:
                lay_out(torch._C.PyTorchFileWriter(file, True, alignment))
                outcome.append(None)
            except BaseException as error:
                traceback.clear_frames(error.__traceback__)  # they have the writer, which must go here
                outcome.append(error)
            finally:
                has_ended.release()

        interrupt: BaseException | None = None
        # Not threading.Thread: an interrupt within start() may become a RuntimeError of its lock's, and before Python
        # 3.13 one within join() takes the thread for ended.
        _thread.start_new_thread(run, ())
        while not outcome:
            try:
                has_ended.acquire(timeout=_LOOK_S)
            except BaseException as signalled:
                interrupt = signalled
        failure = interrupt or outcome[0]
        if failure is not None:
            raise failure

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append((self._offset, part))
        self._offset += len(part)
        return len(part)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._offset = offset if whence == os.SEEK_SET else self._offset + offset
        return self._offset

    def save(self, path: str) -> None:
        try:
            with open(path, "wb") as file:
                for offset, part in self._parts:
                    file.seek(offset)
                    file.write(part)
        except OSError as error:
            raise StorageError(error.errno or 0, f"cannot write {path}: {error.strerror}", path) from error
