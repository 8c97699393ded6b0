"""A load that fails after contents have been exchanged: steps and saves are refused until another load."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import free_port
from habit_process import run
from penstock.errors import Error

ON_NVME: dict[str, Any] = {}
STATES_IN_RAM = {"zero_optimization__offload_optimizer": {"device": "cpu"}}
UNIVERSAL = {"checkpoint__load_universal": True}


def engine_of(trial: Any, **changes: Any) -> Any:
    import torch
    from habit_models import Uneven
    from trial import partitioned_at_birth

    config = trial.config(**changes)
    with partitioned_at_birth(trial, config):
        model = Uneven(3)
        model.register_buffer("rows", torch.zeros(3))  # loaded before all else
    model.layers[1].requires_grad_(False)
    return trial.initialize(model, config)


def saved(trial: Any, directory: str, changes: dict[str, Any]) -> Any:
    """An engine that has trained on since it saved."""
    import torch
    from checkpoints import convert

    engine = engine_of(trial, **changes)
    trial.steps(engine, 2)
    engine.save_checkpoint(directory, tag="good")
    if changes.get("checkpoint__load_universal"):
        if trial.rank == 0:
            convert(directory, "good")
            Path(directory, "latest_universal").write_text("universal")
        torch.distributed.barrier()
    return engine


@contextlib.contextmanager
def failing(owner: Any, name: str, error: BaseException) -> Iterator[None]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    original = getattr(owner, name)
    setattr(owner, name, fail)
    try:
        yield
    finally:
        setattr(owner, name, original)


def seen(trial: Any, engine: Any) -> list[str]:
    before, trial.seen = trial.seen, []
    trial.record_weights(engine)
    lines, trial.seen = trial.seen, before
    return lines


def stopped(directory: str, changes: dict[str, Any], how: str, error: BaseException, trial: Any) -> None:
    """`how` it is loaded, and where that fails: in rank 0."""
    from penstock.deepspeed.checkpoint import loaded_states, universal_states
    from penstock.deepspeed.checkpoint.intake import Intake

    engine = saved(trial, directory, changes)
    states, expected = engine.optimizer.state_dict(), seen(trial, engine)
    trial.steps(engine, 2)
    loads: dict[str, Callable[[], Any]] = {
        "module": lambda: engine.load_checkpoint(directory, load_module_only=True),
        "exchange": lambda: engine.load_checkpoint(directory, load_module_only=True),
        "given": lambda: engine.optimizer.load_state_dict([states] * trial.ranks),
    }
    load = loads.get(how, lambda: engine.load_checkpoint(directory))
    places = {
        "module": (engine.optimizer, "_restore_from_bit16_weights"),
        "scheduler": (engine, "_load_zero_checkpoint"),
        "universal": (universal_states, "install_weights"),
        "exchange": (Intake, "publish"),
    }
    place = places.get(how, (loaded_states, "install_weights"))
    if trial.rank == 0:
        with failing(*place, error), pytest.raises(type(error)):
            load()
    else:
        with pytest.raises(Error, match="other ranks have failed: rank 0: "):
            load()
    for _ in range(2):
        with pytest.raises(Exception, match=r"stopped half-way: .*: load a checkpoint first"):
            trial.step(engine)
    with pytest.raises(Exception, match=r"stopped half-way: .*: load a checkpoint first"):
        engine.save_checkpoint(directory, tag="good")
    if how == "load":
        engine.load_checkpoint(directory, load_module_only=True)  # it does not put right what another has left
        with pytest.raises(Exception, match=r"stopped half-way: .*: load a checkpoint first"):
            trial.step(engine)
    loads["given"]() if how == "given" else engine.load_checkpoint(directory)
    assert seen(trial, engine) == expected
    trial.step(engine)


@pytest.mark.parametrize(
    ("how", "changes", "error"),
    [
        pytest.param("load", ON_NVME, OSError(5, "of the test"), id="load"),
        pytest.param("load", STATES_IN_RAM, KeyboardInterrupt(), id="states in RAM"),
        pytest.param("scheduler", ON_NVME, KeyboardInterrupt(), id="before states", marks=pytest.mark.deep),
        pytest.param("module", ON_NVME, KeyboardInterrupt(), id="module only", marks=pytest.mark.deep),
        pytest.param("given", ON_NVME, KeyboardInterrupt(), id="load_state_dict"),
        pytest.param("universal", UNIVERSAL, KeyboardInterrupt(), id="universal"),
    ],
)
def test_the_next_step_is_refused(
    compiled: None, tmp_path: Path, how: str, changes: dict[str, Any], error: BaseException
) -> None:
    training = functools.partial(stopped, str(tmp_path / "saved"), changes, how, error)
    outcome = run(training, tmp_path / "run", 1, False, free_port())
    assert not outcome.errors, outcome.log


@pytest.mark.parametrize(
    ("how", "changes"),
    [
        pytest.param("load", ON_NVME, id="load"),
        pytest.param("exchange", ON_NVME, id="module only"),
        pytest.param("given", ON_NVME, id="load_state_dict", marks=pytest.mark.deep),
        pytest.param("universal", UNIVERSAL, id="universal", marks=pytest.mark.deep),
    ],
)
def test_one_of_two_ranks_fails(compiled: None, tmp_path: Path, how: str, changes: dict[str, Any]) -> None:
    """The other one does not go on into DeepSpeed's gathers."""
    training = functools.partial(stopped, str(tmp_path / "saved"), changes, how, OSError(5, "of the test"))
    outcome = run(training, tmp_path / "run", 2, False, free_port())
    assert not outcome.errors, outcome.log


def of_another_model(directory: str, trial: Any) -> None:
    """torch's strict load has refused it; the script goes on."""
    import torch

    engine = saved(trial, directory, ON_NVME)
    engine.module.register_buffer("late", torch.zeros(3))
    expected = seen(trial, engine)
    with pytest.raises(RuntimeError, match="late"):
        engine.load_checkpoint(directory)
    assert seen(trial, engine) == expected
    trial.step(engine)
    engine.save_checkpoint(directory, tag="later")


def test_a_load_that_is_refused_before_it_changes_anything(compiled: None, tmp_path: Path) -> None:
    training = functools.partial(of_another_model, str(tmp_path / "saved"))
    outcome = run(training, tmp_path / "run", 1, False, free_port())
    assert not outcome.errors, outcome.log


def without_files(directory: str, changes: dict[str, Any], trial: Any) -> None:
    """The drive of the checkpoint fails once contents have been exchanged."""
    from penstock.deepspeed.checkpoint.archive import Archive
    from penstock.deepspeed.checkpoint.intake import Intake

    engine = saved(trial, directory, changes)
    expected = seen(trial, engine)
    trial.steps(engine, 2)
    read, intake_run, exchanged = Archive._read_at, Intake.run, []

    def run_and_watch(self: Intake, *args: Any) -> None:
        intake_run(self, *args)
        core = self._core
        self._core = SimpleNamespace(publish=lambda: (core.publish(), exchanged.append(True)))

    def fail(self: Archive, offset: int, into: Any) -> None:
        if exchanged:
            raise OSError(5, "of the test")
        read(self, offset, into)

    Intake.run, Archive._read_at = run_and_watch, fail  # type: ignore[method-assign]
    engine.load_checkpoint(directory)
    assert exchanged and seen(trial, engine) == expected
    trial.step(engine)


@pytest.mark.parametrize("changes", [ON_NVME, UNIVERSAL], ids=["load", "universal"])
def test_no_file_is_read_after_contents_are_exchanged(compiled: None, tmp_path: Path, changes: dict[str, Any]) -> None:
    """Where all belongs on NVMe; it is large, or has been read before."""
    training = functools.partial(without_files, str(tmp_path / "saved"), changes)
    outcome = run(training, tmp_path / "run", 1, False, free_port())
    assert not outcome.errors, outcome.log


def refused_again_and_again(directory: str, trial: Any) -> None:
    """A script that goes back to an older checkpoint, and keeps no error."""
    import gc
    import os
    import shutil

    engine = saved(trial, directory, ON_NVME)
    shutil.copytree(Path(directory, "good"), Path(directory, "bad"))
    (file,) = Path(directory, "bad").glob("*optim_states.pt")
    content = bytearray(file.read_bytes())
    content[-4_000_000] ^= 1
    file.write_bytes(content)
    gc.collect()
    gc.disable()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with contextlib.suppress(Error):
            engine.load_checkpoint(directory, tag="bad")
    assert len(os.listdir("/proc/self/fd")) == before
    engine.load_checkpoint(directory, tag="good")


def test_what_a_failed_load_has_read_goes_with_its_error(compiled: None, tmp_path: Path) -> None:
    training = functools.partial(refused_again_and_again, str(tmp_path / "saved"))
    outcome = run(training, tmp_path / "run", 1, False, free_port())
    assert not outcome.errors, outcome.log
