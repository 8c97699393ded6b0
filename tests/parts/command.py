"""Runs commands, and says what they cost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
LOGS = CACHE / "log"


@dataclass(frozen=True)
class Ended:
    status: int
    seconds: float
    cpu_seconds: float  # of the command and of all that it has waited for


class Commands:
    """Those that run now, so that they can be ended with this process."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._over = False

    def run(self, command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> Ended:
        """What the command prints is appended to `log`."""
        if self._over:
            return Ended(1, 0, 0)
        begun = time.monotonic()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=out, stderr=out, env={**os.environ, **(environment or {})}
            )
            self._running.add(process)
            _, status, usage = os.wait4(process.pid, 0)
            self._running.discard(process)
        process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(process.returncode, time.monotonic() - begun, usage.ru_utime + usage.ru_stime)

    def end(self) -> None:
        self._over = True
        for process in list(self._running):
            process.terminate()
        for process in list(self._running):  # a thread waits for each
            for _ in range(50):
                if process not in self._running:
                    break
                time.sleep(0.1)
