"""A port for one training run, and the shared memory that DeepSpeed leaves under its number.

DeepSpeed's CPU collectives make a file of 69 MB a rank in /dev/shm, named after user, address, port and rank, and do
not remove it: it is RAM until the next restart.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

SHARED_MEMORY = Path("/dev/shm")
NOTES = os.environ.get("PENSTOCK_RUN_PORTS", "")  # a directory: a file for each port that is in use


def buffers(port: int | str) -> list[Path]:
    """What runs on this port have left, or use."""
    name = re.compile(rf"deepspeed_allreduce_buffer_\d+_.*_{port}_\d+")
    return sorted(file for file in SHARED_MEMORY.glob("deepspeed_allreduce_buffer_*") if name.fullmatch(file.name))


def drop_buffers(port: int | str) -> None:
    for left in buffers(port):
        with contextlib.suppress(OSError):  # gone already, or another user's
            left.unlink()
    if NOTES:
        Path(NOTES, str(port)).unlink(missing_ok=True)


def drop_noted() -> None:
    """Those of runs that were killed before they could."""
    for note in Path(NOTES).iterdir() if NOTES else ():
        drop_buffers(note.name)


def free_port() -> int:
    """One that is not in use, nor was by a run whose files are still there: they are not ours to remove.

    Below those that the kernel gives to connections: one of them could be taken before it is used.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        if not buffers(port) and note(port):
            return port


def note(port: int) -> bool:
    """Notes that it is in use, for tests that run side by side. False: it is noted already."""
    with contextlib.suppress(FileExistsError):
        if NOTES:
            Path(NOTES, str(port)).touch(exist_ok=False)
        return True
    return False


@contextlib.contextmanager
def own_port() -> Iterator[int]:
    """A port for one run; what the run leaves in /dev/shm is removed behind it, however it ends."""
    port = free_port()
    try:
        yield port
    finally:
        drop_buffers(port)


def clean_up_when_ended() -> None:
    """SIGTERM and SIGHUP end this process as Ctrl-C does, so that what is to be removed behind a run is."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
