"""The one engine of this process, shared by every swapper so that all of them live in one budget."""

from __future__ import annotations

import atexit
import copy
import gc
import json
import multiprocessing.util
import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection
from typing import Any

from penstock import messages
from penstock._core import SwapEngine
from penstock.deepspeed import exit_status
from penstock.deepspeed.heap import map_large_blocks, return_free_heap
from penstock.deepspeed.node_ranks import ranks_on_node
from penstock.deepspeed.states_setting import has_states_on_nvme, setting_of, without_states
from penstock.errors import ConfigError, Error, UnsupportedError

# What the engine reads of a DeepSpeed configuration. Elsewhere launchers put values that JSON does not know.
_SECTIONS = ("zero_optimization", "aio", "bf16", "bfloat16", "fp16", "penstock")

_lock = threading.RLock()  # a swapper may be collected, and the session closed, while another is made
_current: Session | None = None
_unraised: list[Error] = []  # what failed while memory was collected


class Session:
    """An engine and what has been learned about the run. Made when the first swapper is."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = as_it_is_now(config)
        # Of all else the names alone: a misspelt block is refused, and what stands beside the block is warned of.
        sections = {str(key): value if key in _SECTIONS else None for key, value in config.items()}
        if (config.get("penstock") or {}).get("mode") == "durable":
            raise ConfigError(
                "penstock.mode is 'durable': training swaps to scratch stores, leave it out or say 'scratch'"
            )
        # Here, since it imports DeepSpeed: the module must not, a script may set what DeepSpeed reads while imported.
        from penstock.deepspeed.delivery import training_device

        map_large_blocks()
        self.device = training_device()  # that partitions are brought to; None: host memory
        self.engine = self._open_engine(json.dumps(sections))
        self.plan_is_stale = True
        self.has_new_parameters = False
        self.superseded: Collection[int] = ()  # tensors whose next contents a load has read: none is put until then
        self.lost_writes = 0  # errors of writes: the drive has an older content than it should
        _warn_of_idle_states(config)
        self._settlers: list[weakref.WeakMethod[Callable[[], None]]] = []
        self._namespaces = 0
        self._stepped = False
        self._pinned_bytes_advised = 0
        self._at_end_of_child = None
        if multiprocessing.parent_process() is not None:
            self._at_end_of_child = multiprocessing.util.Finalize(None, _close_at_end_of_child, exitpriority=10)

    def _open_engine(self, config: str) -> SwapEngine:
        origin = "the DeepSpeed configuration"
        ranks = ranks_on_node()  # once: all ranks may have to call it together
        if self.device is not None:
            try:
                return SwapEngine(config, origin, ranks, [self.device])
            except UnsupportedError as error:
                messages.warn("through-host-memory", f"partitions go to {self.device} through host memory: {error}")
                self.device = None
        return SwapEngine(config, origin, ranks)

    def open_namespace(self, name: str, nvme_path: Any) -> int:
        """What a swapper keeps, on `penstock.paths` where that is given, else on its own nvme_path."""
        everywhere = (self.config.get("penstock") or {}).get("paths")
        block = "offload_param" if name == "parameters" else "offload_optimizer"
        if not everywhere and nvme_path is None:
            raise ConfigError(f'{block} has no "nvme_path": name a directory there, or in penstock.paths')
        paths = [] if everywhere else [os.fspath(nvme_path)]
        if paths == ["none"] and os.environ.get("RANK", "0") == "0":
            variable = f"ACCELERATE_DEEPSPEED_{block.upper()}_NVME_PATH"
            messages.warn(
                "nvme-path-none",
                f'{block} has the "nvme_path" none, so tensors go to ./none: accelerate launch does not pass '
                f"{block}_nvme_path on. Set {variable}, or use a deepspeed_config_file",
            )
        space: int = self.engine.open_namespace(name, paths)
        self._namespaces += 1
        return space

    def close_namespace(self, space: int) -> None:
        """Gives back its space, memory and files; with the last one, the engine's too. Once for each.

        It may run while memory is collected, so it raises nothing: the next open_session() or close_session() does.
        """
        if _current is not self:
            return  # the engine was closed, and gave the namespace up itself
        try:
            self._namespaces -= 1
            self.plan_is_stale = True
            self.engine.close_namespace(space)
            if self._namespaces == 0:
                close_session()
        except Error as error:
            _unraised.append(error)

    def before_plan(self, settle: Callable[[], None]) -> None:
        """A method that is called before each plan, as long as its object lives: names, ties and what is frozen are
        known only after the model is built."""
        self._settlers.append(weakref.WeakMethod(settle))

    def collect_dead_parameters(self) -> None:
        """DeepSpeed's refer to themselves, so that dead ones (ties are built twice) seem alive until then. It takes a
        third of a second: done as an engine is made, not in its first step.
        """
        self.has_new_parameters = False
        gc.collect()

    def plan_if_stale(self) -> None:
        if self.plan_is_stale:
            if self.has_new_parameters:
                self.collect_dead_parameters()
            self.plan_is_stale = False
            return_free_heap()
            for reference in self._settlers:
                settle = reference()
                if settle is not None:
                    settle()
            self.engine.plan()

    def check_writes(self) -> None:
        """Raises what a write behind an earlier call has met."""
        try:
            self.engine.check()
        except Error:
            self.lost_writes += 1
            raise

    def settle_writes(self) -> None:
        """Waits for what is being written. What fails of it counts as lost, and is not raised later."""
        try:
            self.engine.flush()
        except Error:
            self.lost_writes += 1

    def step_ended(self) -> None:
        """An optimizer's step is over: all that training holds at once has been seen in the first."""
        if not self._stepped:
            self._stepped = True
            self._advise()

    def close(self, after_failure: bool = False) -> None:
        self._advise(silently=after_failure)
        _write_stats(self)
        if self._at_end_of_child is not None:
            self._at_end_of_child.cancel()
        self.engine.close()

    def _advise(self, silently: bool = False) -> None:
        """Says which max_pinned_bytes would have held all buffers, where it is more than was said before.

        `silently`: behind an error, which is the last thing that a run says. Asked, the engine does not say it itself.
        """
        advice = self.engine.overflow_advice()
        needed: int = self.engine.stats()["pinned_bytes_needed"]
        if advice is not None and needed > self._pinned_bytes_advised and not silently:
            self._pinned_bytes_advised = needed
            rank = os.environ.get("RANK", "0")
            messages.warn("overflow", f"rank {rank}: {advice}")


def as_it_is_now(config: dict[str, Any]) -> dict[str, Any]:
    """DeepSpeed keeps the caller's own dict, which a script may change for its next engine."""
    return {key: copy.deepcopy(value) if key in _SECTIONS else value for key, value in config.items()}


def _warn_of_idle_states(config: dict[str, Any]) -> None:
    if setting_of(config) != "fp32" and not has_states_on_nvme(config) and os.environ.get("RANK", "0") == "0":
        messages.warn(
            "idle-states",
            f"penstock.optimizer_states is '{setting_of(config)}' and changes nothing: no optimizer is on NVMe",
        )


def open_session(config: dict[str, Any]) -> Session:
    """The process's session; the first configuration decides, a later one may not contradict its budget. How states are
    stored is each optimizer's own.
    """
    global _current
    theirs = without_states(config.get("penstock"))
    if _current is not None and without_states(_current.config.get("penstock")) != theirs:
        gc.collect()  # an engine that the script has deleted closes its session then
    with _lock:
        _raise_remembered()
        if _current is None:
            _current = Session(config)
            return _current
    ours = without_states(_current.config.get("penstock"))
    if ours != theirs:
        messages.warn("one-budget", f"one process has one budget; the block {theirs} is ignored, {ours} came first")
    return _current


def _raise_remembered() -> None:
    if _unraised:
        error = _unraised[0]
        _unraised.clear()
        raise error


def current_session() -> Session | None:
    return _current


def open_session_of_run() -> Session:
    """Raises Error where it is closed."""
    if _current is None:
        raise Error(
            "the run is ending, and the engine has given up its tensors: save before that. A function for `atexit` has "
            "to be registered behind the first engine, since those of before come after the end"
        )
    return _current


def close_session(after_failure: bool = False) -> None:
    """Waits for I/O in flight and gives up drives and memory. Leases that are out stay readable.

    Raises what no call has raised yet: a write behind the last step that failed.
    """
    global _current
    with _lock:
        session, _current = _current, None
    if session is not None:
        session.close(after_failure)
    _raise_remembered()


def close_session_after_failure() -> None:
    """The same when an error of ours ends the process: what fails on the way out is its consequence."""
    try:
        close_session(after_failure=True)
    except Error:
        pass


def _close_at_exit() -> None:
    if isinstance(getattr(sys, "last_value", None), Error):  # a traceback has reported it
        close_session_after_failure()
        return
    try:
        close_session()
    except Error as error:
        print(f"penstock: {error}", file=sys.stderr, flush=True)
        exit_status.fail()


atexit.register(_close_at_exit)


def _close_at_end_of_child() -> None:
    """What multiprocessing starts ends without atexit, unless it was spawned. A SystemExit gives it its status."""
    failure = sys.exc_info()[1]
    if failure is not None and not (isinstance(failure, SystemExit) and failure.code in (None, 0)):
        close_session_after_failure()
        return
    try:
        close_session()
    except Error as error:
        print(f"penstock: {error}", file=sys.stderr, flush=True)
        raise SystemExit(1) from error


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
        messages.warn("stats-file", f"cannot write PENSTOCK_STATS={target}: {error.strerror}")
