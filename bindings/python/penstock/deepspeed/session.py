"""The one engine of this process, shared by every swapper so that all of them live in one budget."""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock._core import SwapEngine
from penstock.deepspeed import exit_status
from penstock.deepspeed.heap import return_free_heap
from penstock.deepspeed.node_ranks import ranks_on_node
from penstock.errors import ConfigError, Error, UnsupportedError

# What the engine reads of a DeepSpeed configuration. Elsewhere launchers put values that JSON does not know.
_SECTIONS = ("zero_optimization", "aio", "bf16", "fp16", "penstock")

_lock = threading.Lock()
_current: Session | None = None


class Session:
    """An engine and what has been learned about the run. Made when the first swapper is."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        sections = {key: config[key] for key in _SECTIONS if key in config}
        if (config.get("penstock") or {}).get("mode") == "durable":
            raise ConfigError(
                "penstock.mode is 'durable': training swaps to scratch stores, leave it out or say 'scratch'"
            )
        # Here, since it imports DeepSpeed: the module must not, a script may set what DeepSpeed reads while imported.
        from penstock.deepspeed.delivery import training_device

        self.device = training_device()  # that partitions are brought to; None: host memory
        self.engine = self._open_engine(json.dumps(sections))
        self.plan_is_stale = True
        self._settlers: list[Callable[[], None]] = []

    def _open_engine(self, config: str) -> SwapEngine:
        origin = "the DeepSpeed configuration"
        ranks = ranks_on_node()  # once: all ranks may have to call it together
        if self.device is not None:
            try:
                return SwapEngine(config, origin, ranks, [self.device])
            except UnsupportedError as error:
                print(f"penstock: partitions go to {self.device} through host memory: {error}", file=sys.stderr)
                self.device = None
        return SwapEngine(config, origin, ranks)

    def paths(self, nvme_path: Any) -> list[str]:
        """Where a swapper swaps to: `penstock.paths` for all (then nothing), else its own nvme_path."""
        if (self.config.get("penstock") or {}).get("paths"):
            return []
        return [os.fspath(nvme_path)]

    def before_plan(self, settle: Callable[[], None]) -> None:
        """`settle()` is called before each plan, since names and ties are known only after the model is built."""
        self._settlers.append(settle)

    def plan_if_stale(self) -> None:
        if self.plan_is_stale:
            self.plan_is_stale = False
            gc.collect()  # DeepSpeed's parameters refer to themselves: without it, dead ones seem alive
            return_free_heap()
            for settle in self._settlers:
                settle()
            self.engine.plan()

    def close(self) -> None:
        _write_stats(self)
        self.engine.close()


def open_session(config: dict[str, Any]) -> Session:
    """The process's session; the first configuration decides, a later one may not contradict its budget."""
    global _current
    with _lock:
        if _current is None:
            _current = Session(config)
            return _current
    ours, theirs = _current.config.get("penstock"), config.get("penstock")
    if ours != theirs:
        print(
            f"penstock: one process has one budget; the block {theirs} is ignored, {ours} came first",
            file=sys.stderr,
        )
    return _current


def current_session() -> Session | None:
    return _current


def close_session() -> None:
    """Waits for I/O in flight and gives up drives and memory. Leases that are out stay readable.

    Raises what no call has raised yet: a write behind the last step that failed.
    """
    global _current
    with _lock:
        session, _current = _current, None
    if session is not None:
        session.close()


def close_session_after_failure() -> None:
    """The same when an error of ours ends the process: what fails on the way out is its consequence."""
    try:
        close_session()
    except Error:
        pass


def _close_at_exit() -> None:
    if isinstance(getattr(sys, "last_value", None), Error):  # a traceback has told it
        close_session_after_failure()
        return
    try:
        close_session()
    except Error as error:
        print(f"penstock: {error}", file=sys.stderr, flush=True)
        exit_status.fail()


atexit.register(_close_at_exit)


def _write_stats(session: Session) -> None:
    """PENSTOCK_STATS=FILE: what was planned and moved, as JSON, when the process ends. `%r` is the rank."""
    target = os.environ.get("PENSTOCK_STATS")
    if not target:
        return
    document = {
        "schema": "penstock.stats/1",
        "plan": session.engine.placement(),
        "stats": session.engine.stats(),
    }
    try:
        with open(target.replace("%r", os.environ.get("RANK", "0")), "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
    except OSError as error:
        print(f"penstock: cannot write PENSTOCK_STATS={target}: {error.strerror}", file=sys.stderr)
