"""How `penstock bench --pair=deepspeed` speaks with DeepSpeed: a process that does one run after another.

It reads what to do from lines of JSON on standard input, first the work, then one line for each run, and
answers each with a line: `{}` once it is ready, `{"read_bytes": N, "write_bytes": N, "seconds": S, "cpu_seconds": S}`
for a run, or `{"error": "..."}`, after which it ends. CPU time is that of this process with all its threads.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol


class Moved(NamedTuple):
    read_bytes: int
    write_bytes: int


class Worker(Protocol):
    def prepare(self, order: dict[str, Any]) -> None:
        """What a run needs that is not measured."""

    def move(self, order: dict[str, Any]) -> Moved:
        """The run."""


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(worker: Worker, order: dict[str, Any]) -> dict[str, float]:
    worker.prepare(order)
    cpu_before, begun = cpu_seconds(), time.monotonic()
    moved = worker.move(order)
    seconds, cpu = time.monotonic() - begun, cpu_seconds() - cpu_before
    return {**moved._asdict(), "seconds": seconds, "cpu_seconds": cpu}


def serve(make: Callable[[dict[str, Any]], Worker]) -> None:
    # DeepSpeed prints on standard output, which is for answers alone.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what has to be removed at the end is removed

    def answer(what: dict[str, Any]) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    try:
        worker = make(json.loads(sys.stdin.readline()))
        answer({})
        for line in sys.stdin:
            answer(measure(worker, json.loads(line)))
    except ImportError as error:
        answer({"error": f"{sys.executable} has no DeepSpeed: {error}"})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
