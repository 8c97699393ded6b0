"""How far a checkpoint is: a line that changes where stderr is a terminal, and one line at the end."""

from __future__ import annotations

import sys
import time

from penstock import messages

_UNITS = ("B", "kB", "MB", "GB", "TB")
_INTERVAL_S = 0.5


def amount(nbytes: float) -> str:
    unit = 0
    while nbytes >= 1000 and unit < len(_UNITS) - 1:
        nbytes, unit = nbytes / 1000, unit + 1
    return f"{nbytes:.3g} {_UNITS[unit]}" if unit else f"{nbytes:.0f} B"


class ProgressLine:
    """speaks: whether this rank is the one that prints."""

    def __init__(self, doing: str, path: str, total: int, speaks: bool) -> None:
        self._doing = doing
        self._path = path
        self._total = total
        self._speaks = speaks
        self._begin = time.monotonic()
        self._shown = self._begin
        self._done = 0  # of the files before
        self._wide = 0

    def __call__(self, moved: int) -> None:
        """moved: bytes of the file that is under way."""
        now = time.monotonic()
        if not self._speaks or not sys.stderr.isatty() or now - self._shown < _INTERVAL_S:
            return
        self._shown = now
        done, seconds = self._done + moved, now - self._begin
        left = f", {(self._total - done) * seconds / done:.0f} s left" if 0 < done < self._total else ""
        self._show(f"penstock: {self._doing} {self._path}: {amount(done)} of {amount(self._total)}{left}")

    def file_done(self, nbytes: int) -> None:
        self._done += nbytes

    def end(self, done: str) -> None:
        if self._speaks:
            self._show("")
            seconds = time.monotonic() - self._begin
            messages.note(f"{done} {self._path}: {amount(self._done)} in {seconds:.1f} s")

    def _show(self, text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r{text:<{self._wide}}\r{text}", end="", file=sys.stderr, flush=True)
            self._wide = len(text)
