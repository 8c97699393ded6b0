"""What penstock says beside its results: to `logging`, where the program has set that up, else on stderr.

A logger is set up where `logging.getLogger("penstock")`, or one above it, has a handler.
"""

from __future__ import annotations

import logging
import sys

# Of the warnings that begin in Python; the engine's are in `_core.warning_codes()`. docs/TUNING.md has a table of both.
CODES = (
    "converted-states",
    "half-step",
    "idle-parameters",
    "idle-pattern",
    "idle-states",
    "nvme-path-none",
    "one-budget",
    "overflow",
    "stats-file",
    "through-host-memory",
    "untested-deepspeed",
    "weights-of-latest",
)

_logger = logging.getLogger("penstock")


def warn(code: str, text: str) -> None:
    """Something that the user can act on. The record has the attribute `penstock_code`."""
    _say(logging.WARNING, f"[{code}] {text}", f"penstock: warning: [{code}] {text}", code)


def note(text: str) -> None:
    """What has been done, or not."""
    _say(logging.INFO, text, f"penstock: {text}", "")


def _say(level: int, message: str, line: str, code: str) -> None:
    try:
        if _logger.hasHandlers():
            _logger.log(level, "%s", message, extra={"penstock_code": code})
            return
    except Exception as error:  # of a handler, which must not stop training
        line += f" (a handler of logging raised {error!r})"
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)
