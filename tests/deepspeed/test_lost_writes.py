"""A write behind a script's back that fails: what the next load, step and save make of it."""

from __future__ import annotations

import functools
import itertools
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import free_port
from habit_process import equals_reference, run


def lose_a_write(trial: Any, engine: Any) -> None:
    """Of the last rank, as a full disk would; no call says so. The disk has room again afterwards."""
    import deepspeed
    from penstock.deepspeed.session import current_session

    is_hit = trial.rank == trial.ranks - 1 and not trial.reference
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    if is_hit:
        current_session().engine.flush()  # what is under way is not meant
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
    param = engine.module.layers[1].linear.weight
    with deepspeed.zero.GatheredParameters([param], modifier_rank=0):
        param.data.mul_(0.5)
    while is_hit and not current_session().engine.stats()["write_failures"]:
        time.sleep(0.01)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def loaded(trial: Any) -> None:
    from habit_models import Uneven

    engine = trial.initialize(Uneven(3))
    trial.steps(engine, 2)
    engine.save_checkpoint(trial.swap + "/saved", tag="good")
    trial.step(engine)
    lose_a_write(trial, engine)
    engine.load_checkpoint(trial.swap + "/saved", tag="good")
    trial.record_weights(engine)
    trial.steps(engine, 2)
    trial.record_weights(engine)


def lose_the_drive(trial: Any, engine: Any) -> list[str]:
    """It takes nothing more of the last rank; what two steps say. A write behind may fail when its step has ended."""
    import penstock.errors
    from penstock.deepspeed.session import current_session

    core, said = current_session().engine, []
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    is_hit = trial.rank == trial.ranks - 1
    if is_hit:
        core.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
    while len(said) < 2:
        try:
            engine.step()
        except penstock.errors.Error as failure:
            said.append(str(failure))
        while is_hit and not core.stats()["write_failures"]:
            time.sleep(0.01)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    return said


def fail_a_lease(number: int) -> None:
    """Of the optimizer's states, once: the one behind `number` others."""
    import penstock.errors
    from penstock.deepspeed.sub_group import SubGroup

    original, calls = SubGroup.lease_of, itertools.count()

    def lease_of(self: Any, *args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            SubGroup.lease_of = original
            raise penstock.errors.StorageError(5, "cannot write tensor, in this test")
        return original(self, *args, **kwargs)

    SubGroup.lease_of = lease_of


def stop_half_way(trial: Any, engine: Any) -> list[str]:
    """The last rank's drive fails in the middle of a step."""
    import penstock.errors

    if trial.rank == trial.ranks - 1:
        fail_a_lease(4)
    said = []
    for _ in range(2):
        with pytest.raises(penstock.errors.Error) as failure:
            engine.step()
        said.append(str(failure.value))
    assert "; the step " in said[0], said
    return said


def stepped(lose: Callable[[Any, Any], list[str]], trial: Any) -> None:
    """The last rank's drive fails in the third step; then a load, and training goes on."""
    from habit_models import Uneven

    engine = trial.initialize(Uneven(3))
    trial.steps(engine, 2)
    engine.save_checkpoint(trial.swap + "/saved", tag="good")
    engine.backward(trial.loss(engine))
    if trial.reference:
        engine.step()
    else:
        said = lose(trial, engine)
        assert "load a checkpoint" in said[1], said
        if trial.rank != trial.ranks - 1:
            assert f"rank {trial.ranks - 1}: " in said[0], said
        assert "cannot write tensor" in said[0], said
    engine.load_checkpoint(trial.swap + "/saved", tag="good")
    trial.steps(engine, 2)
    trial.record_weights(engine)


def accumulated(trial: Any) -> None:
    """A step ends its cycle also where it fails: with a load behind it, tried again, and with the next batch."""
    from habit_models import Stack

    engine = trial.initialize(Stack(), trial.config(gradient_accumulation_steps=2))
    _micro_steps(trial, engine, 4)
    engine.save_checkpoint(trial.swap + "/saved", tag="good")
    _fail_at_boundary(trial, engine, lease=4)
    if trial.reference:
        engine.step()
    engine.load_checkpoint(trial.swap + "/saved", tag="good")
    _micro_steps(trial, engine, 4)
    _fail_at_boundary(trial, engine, lease=0)
    engine.step()
    _micro_steps(trial, engine, 2)
    _fail_at_boundary(trial, engine, lease=0)
    if trial.reference:
        engine.optimizer.zero_grad()
        engine.micro_steps += 1
    _micro_steps(trial, engine, 4)
    trial.record_weights(engine)


def _micro_steps(trial: Any, engine: Any, count: int) -> None:
    for _ in range(count):
        loss = trial.loss(engine)
        trial.record(engine.is_gradient_accumulation_boundary(), loss.item())
        engine.backward(loss)
        engine.step()


def _fail_at_boundary(trial: Any, engine: Any, lease: int) -> None:
    """A whole cycle, whose step fails at this lease. The reference does not step."""
    _micro_steps(trial, engine, 1)
    engine.backward(trial.loss(engine))
    if trial.reference:
        return
    import penstock.errors

    fail_a_lease(lease)
    with pytest.raises(penstock.errors.StorageError):
        engine.step()


def saved_apart(trial: Any) -> None:
    """A script has caught an error in one rank, which is a step behind."""
    from habit_models import Stack
    from penstock.errors import ArgumentError

    engine = trial.initialize(Stack())
    trial.steps(engine, 1)
    directory = Path(trial.swap, "saved")
    engine.global_steps += trial.rank
    for tag, sentence in (
        (None, "rank 0 saves under the tag global_step1 and rank 1 under global_step2; a checkpoint has one tag"),
        ("last", "rank 0 is at step 1 and rank 1 at step 2; a checkpoint is of one step"),
    ):
        with pytest.raises(ArgumentError, match=f"was not saved: {sentence}"):
            engine.save_checkpoint(str(directory), tag=tag)
    assert not list(directory.iterdir())
    engine.global_steps -= trial.rank
    engine.save_checkpoint(str(directory))


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_a_load_replaces_what_was_lost(compiled: None, tmp_path: Path, ranks: int) -> None:
    equals_reference(loaded, tmp_path, ranks)


@pytest.mark.parametrize("lose", [lose_the_drive, stop_half_way])
@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.deep), 2])
def test_a_step_that_fails_in_one_rank_fails_in_all(compiled: None, tmp_path: Path, ranks: int, lose: Any) -> None:
    equals_reference(functools.partial(stepped, lose), tmp_path, ranks)


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_a_step_that_fails_ends_its_cycle(compiled: None, tmp_path: Path, ranks: int) -> None:
    equals_reference(accumulated, tmp_path, ranks)


def test_ranks_at_different_steps_save_nothing(compiled: None, tmp_path: Path) -> None:
    result = run(saved_apart, tmp_path / "run", 2, False, free_port())
    assert not result.errors, result.log
