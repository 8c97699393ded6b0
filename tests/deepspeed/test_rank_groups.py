"""Which files of a checkpoint belong to which rank, where ranks are in several groups, or in one."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from conftest import free_port
from habit_process import run
from penstock.errors import ArgumentError, UnsupportedError


def refused(directory: str, trial: Any) -> None:
    """Sequence parallelism: the two ranks have a partition each, and are first in groups of their own."""
    from habit_models import Stack

    engine = trial.initialize(Stack(), trial.config(), mesh_param=(1, 2))
    trial.steps(engine, 1)
    with pytest.raises(UnsupportedError, match=r"ranks 0 and 1 have different partitions, .* save_16bit_model"):
        engine.save_checkpoint(directory)
    assert not any(Path(directory).iterdir())
    trial.steps(engine, 1)


def test_ranks_of_one_directory(compiled: None, tmp_path: Path) -> None:
    training = functools.partial(refused, str(tmp_path / "saved"))
    outcome = run(training, tmp_path / "run", 2, False, free_port())
    assert not outcome.errors, outcome.log


def exchanged(directory: str, trial: Any) -> None:
    """Two trainings side by side: each loads what the other has saved."""
    import torch
    from deepspeed import comm
    from habit_models import Stack

    groups = [comm.new_group([rank]) for rank in range(2)]

    class Apart:
        """What DeepSpeed asks a grid of ranks for."""

        get_data_parallel_group = staticmethod(lambda: groups[trial.rank])
        get_data_parallel_rank = get_model_parallel_rank = staticmethod(lambda: 0)
        get_data_parallel_world_size = get_model_parallel_world_size = staticmethod(lambda: 1)
        get_model_parallel_group = staticmethod(lambda: groups[trial.rank])

    torch.manual_seed(5)
    engine = trial.initialize(Stack(), trial.config(), mpu=Apart())
    trial.steps(engine, 2)
    engine.save_checkpoint(f"{directory}/{trial.rank}", tag="two")
    trial.seen.clear()
    trial.record_weights(engine)
    saved: list[Any] = [None, None]
    torch.distributed.all_gather_object(saved, list(trial.seen))
    engine.load_checkpoint(f"{directory}/{1 - trial.rank}", tag="two")
    trial.seen.clear()
    trial.record_weights(engine)
    assert saved[0] != saved[1] and trial.seen == saved[1 - trial.rank]


def test_ranks_that_train_apart(compiled: None, tmp_path: Path) -> None:
    training = functools.partial(exchanged, str(tmp_path / "saved"))
    outcome = run(training, tmp_path / "run", 2, False, free_port())
    assert not outcome.errors, outcome.log


def of_two_saves(directory: str, trial: Any) -> None:
    """A group of two ranks, whose directories have the same tag of different saves."""
    from habit_models import Stack

    engine = trial.initialize(Stack(), trial.config())
    trial.steps(engine, 1)
    for place in range(2):
        engine.save_checkpoint(f"{directory}/{place}", tag="same")
    with pytest.raises(ArgumentError, match="of two saves"):
        engine.load_checkpoint(f"{directory}/{trial.rank}", tag="same")
    trial.steps(engine, 1)


def test_one_group_loads_one_save(compiled: None, tmp_path: Path) -> None:
    training = functools.partial(of_two_saves, str(tmp_path / "saved"))
    outcome = run(training, tmp_path / "run", 2, False, free_port())
    assert not outcome.errors, outcome.log
