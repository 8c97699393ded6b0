"""A training that saves and loads as its steps say, in processes forked from one that has imported DeepSpeed."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

from checkpoints import convert
from conftest import ROOT, free_port
from habit_process import become_rank, context

TIMEOUT_S = 400
FAULTY_DRIVE = Path(os.environ.get("PENSTOCK_FAULTY_DRIVE", ROOT / "build/release/tests/faults/penstock_faulty_drive"))


@dataclass(frozen=True)
class Play:
    """steps: of `train:N`, `save`, `save:TAG`, `load`, `load:TAG`, `weights` and `module` (loads of a part),
    `convert:TAG` (to the universal checkpoint `universal`), `see`, `limit:N`, `tell:RULE`, `break:N` (a step that fails
    at its Nth chunk, or sub-group), `try` (a step), `lose` (the engine has met a write that failed). What save, load,
    break, try and lose raise is printed as FAILED, and the training goes on.
    """

    device: str  # nvme (through penstock) or cpu
    directory: str
    swap: str
    steps: tuple[str, ...]
    layers: int = 4  # one of them is frozen
    is_reversed: bool = False  # the last layer is registered first
    is_uneven: bool = False  # a matrix whose elements no even number of ranks divides
    ram_bytes: str = "0"
    chunk_numel: int = 0  # of states, instead of what users have
    equals_op: bool = True  # False: as where penstock's kernels differ from the compiled op
    # The directory is a file system of its own, which goes with the process:
    tmpfs_bytes: int = 0  # of this size; `limit:N` changes it
    faulty: bool = False  # a drive that fails as `tell:RULE` says (tests/faults/faulty_file.h)
    changes: dict[str, Any] = field(default_factory=dict)  # of the configuration, as Trial.config() takes them


@dataclass(frozen=True)
class Played:
    """The ranks' exit statuses, and what they have printed."""

    exits: list[int]
    output: str

    @property
    def failures(self) -> list[str]:
        return [line for line in self.output.split("\n") if line.startswith("FAILED ")]

    def seen(self, after: str) -> list[str]:
        """What the training saw while it did this step, of all ranks."""
        found: list[str] = []
        taking = False
        for line in self.output.split("\n"):
            if line.startswith("DONE "):
                taking = line == f"DONE {after}"
            elif taking and line.startswith("SEEN "):
                found.append(line)
        assert found, self.output
        return sorted(found)


def play(what: Play, ranks: int = 1, watch: Callable[[list[BaseProcess]], None] | None = None) -> Played:
    """Blocks until all ranks have ended; `watch` sees them run, and may kill them."""
    ctx, port = context(), free_port()
    logs = [Path(f"{what.swap}-log-{rank}") for rank in range(ranks)]
    processes: list[BaseProcess] = [
        ctx.Process(target=_rank, args=(what, rank, ranks, port, str(logs[rank])), daemon=True) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    if watch is not None:
        watch(processes)
    for process in processes:
        process.join(TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
            process.join()
    output = "".join(log.read_text(errors="replace") for log in logs if log.exists())
    return Played([process.exitcode or 0 for process in processes], output)


def _rank(what: Play, rank: int, ranks: int, port: str, log: str) -> None:
    become_rank(rank, ranks, port, Path(log))
    status = 0
    try:
        if what.tmpfs_bytes or what.faulty:
            _mount(what.directory, what.tmpfs_bytes)
        _train(what, rank, ranks)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _mount(directory: str, tmpfs_bytes: int) -> None:
    """Before this process has threads. Other processes do not see it. 0 bytes: a faulty drive."""
    new_mounts = 0x20000  # CLONE_NEWNS
    assert ctypes.CDLL(None).unshare(new_mounts) == 0
    os.makedirs(directory, exist_ok=True)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if tmpfs_bytes:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={tmpfs_bytes}", "none", directory], check=True)
        return
    drive = subprocess.Popen([FAULTY_DRIVE, directory])
    while not os.path.ismount(directory):
        assert drive.poll() is None, "the drive ended"
        time.sleep(0.02)


def _train(what: Play, rank: int, ranks: int) -> None:
    import deepspeed
    import preloaded  # noqa: F401
    import torch
    from habit_models import Stack, Uneven
    from trial import Trial, dtype_of

    if what.device == "nvme":
        import penstock.deepspeed

        penstock.deepspeed.install()
        if what.chunk_numel:
            from penstock.deepspeed import optimizer_swapper

            optimizer_swapper.STATE_CHUNK_ELEMENTS = what.chunk_numel
        if not what.equals_op:
            from penstock.deepspeed import step_choice

            step_choice._equals_op = lambda *_: False
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    trial = Trial(what.device == "cpu", what.swap, rank, ranks)
    schedule = {"type": "WarmupDecayLR", "params": {"total_num_steps": 50, "warmup_num_steps": 5}}
    config = trial.config(scheduler=schedule, penstock__ram_bytes=what.ram_bytes, **what.changes)
    torch.manual_seed(5)
    with deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype_of(config)):
        model = (Uneven if what.is_uneven else Stack)(what.layers)
    model.layers[1].requires_grad_(False)
    if what.is_reversed:
        model.layers._modules = dict(reversed(model.layers._modules.items()))
    engine = trial.initialize(model, config)
    for step in what.steps:
        _do(step, what.directory, engine, trial)
        print(f"DONE {step}", flush=True)
        for line in trial.seen:
            print(f"SEEN {line}", flush=True)
        trial.seen.clear()
    torch.distributed.destroy_process_group()


def _do(step: str, directory: str, engine: Any, trial: Any) -> None:
    import torch

    verb, _, argument = step.partition(":")
    if verb == "train":
        torch.manual_seed(100 * trial.rank + engine.global_steps)
        trial.steps(engine, int(argument))
    elif verb == "see":
        trial.record_weights(engine)
        trial.record("lr", engine.get_lr(), engine.global_steps)
    elif verb == "convert":
        if trial.rank == 0:
            convert(directory, argument)
        torch.distributed.barrier()
    elif verb == "limit":
        subprocess.run(["mount", "-o", f"remount,size={argument}", directory], check=True)
    elif verb == "tell":
        Path(directory, ".faults").write_text(f"{argument}\n")
    else:
        try:
            faults = {
                "break": lambda: _break(engine, trial, int(argument)),
                "try": lambda: trial.steps(engine, 1),
                "lose": _lose_write,
                "interrupt": lambda: _interrupt(engine, trial, int(argument)),
                "rescue": lambda: _rescue(engine, trial, directory, argument),
            }
            if verb in faults:
                faults[verb]()
            elif verb == "save":
                client = {"mine": [engine.global_steps], "optimizer": "the script's"}
                engine.save_checkpoint(directory, tag=argument or None, client_state=client)
            else:
                loads = {"load": {}, "weights": {"load_optimizer_states": False}, "module": {"load_module_only": True}}
                client = engine.load_checkpoint(directory, tag=argument or None, **loads[verb])[1]
                print("CLIENT", client.get("mine"), client.get("optimizer"))
                print("KEYS", *sorted(set(client) - {"frozen_param_fragments"}), flush=True)
        except Exception as error:
            print(f"FAILED {type(error).__name__}: {error}", flush=True)


def _break(engine: Any, trial: Any, count: int) -> None:
    """One step, of which the chunks before this one are updated, or the sub-groups where those are stepped whole."""
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper
    from penstock.deepspeed.sub_group import SubGroup
    from penstock.errors import StorageError

    in_chunks = engine.optimizer.optimizer_swapper.step is not None
    owner, name = (SubGroup, "lease_of") if in_chunks else (OptimizerSwapper, "swap_in_optimizer_state")
    original, left = getattr(owner, name), [3 * count if in_chunks else count]  # calls that succeed

    def call(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise StorageError(5, "the drive of this test fails", "/drive")
        return original(*arguments, **named)

    try:
        with mock.patch.object(owner, name, call):
            trial.steps(engine, 1)
    finally:
        trial.seen.clear()


def _interrupt(engine: Any, trial: Any, count: int) -> None:
    """A step whose first attempt is interrupted while it declares its moments, behind so many chunks."""
    from penstock.deepspeed.sub_group import SubGroup

    original, left = SubGroup.layout, [count]

    def layout(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return original(*arguments)

    with mock.patch.object(SubGroup, "layout", layout):
        try:
            _do("train:1", "", engine, trial)
        except KeyboardInterrupt:
            print("INTERRUPTED", flush=True)
            engine.step()
    trial.seen.clear()


def _rescue(engine: Any, trial: Any, directory: str, tag: str) -> None:
    """A load where the error of a step is caught, of states that cannot be read any more."""
    from penstock.deepspeed.sub_group import SubGroup
    from penstock.errors import StorageError

    def read(*_: Any) -> Any:
        raise StorageError(5, "what the drive of this test has is lost", "/drive")

    try:
        _break(engine, trial, 1)
    except StorageError:
        with mock.patch.object(SubGroup, "read", read):
            engine.load_checkpoint(directory, tag=tag or None)


def _lose_write() -> None:
    """As the next call into the swapper finds it."""
    from types import SimpleNamespace

    from penstock.deepspeed.session import current_session
    from penstock.errors import StorageError

    def check() -> None:
        raise StorageError(28, "the drive of this test is full", "/drive")

    session = current_session()
    assert session is not None
    engine, session.engine = session.engine, SimpleNamespace(check=check)  # type: ignore[assignment]
    try:
        session.check_writes()
    finally:
        session.engine = engine
