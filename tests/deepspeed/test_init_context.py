"""Within deepspeed.zero.Init, which replaces torch.empty and its like, checkpoints are those of outside."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Any

from conftest import free_port
from habit_process import run


def save_and_load(directory: str, within: bool, trial: Any) -> None:
    import deepspeed
    from habit_models import Uneven
    from trial import partitioned_at_birth

    config = trial.config()
    with partitioned_at_birth(trial, config):
        model = Uneven(3)
    engine = trial.initialize(model, config)

    def context() -> Any:
        return deepspeed.zero.Init(config_dict_or_path=config) if within else contextlib.nullcontext()

    trial.steps(engine, 2)
    with context():
        engine.save_checkpoint(directory)
        states = engine.optimizer.state_dict()
    _record(trial, states)
    trial.steps(engine, 1)
    with context():
        engine.load_checkpoint(directory)
    trial.record_weights(engine)
    trial.steps(engine, 2)
    with context():
        engine.optimizer.load_state_dict([states])
    trial.record_weights(engine)
    trial.steps(engine, 1)


def _record(trial: Any, value: Any) -> None:
    import torch
    from trial import digest

    if torch.is_tensor(value):
        trial.record(value.dtype, tuple(value.shape), digest(value))
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            _record(trial, part)


def test_saved_and_loaded_within(compiled: None, tmp_path: Path) -> None:
    runs = [
        run(
            functools.partial(save_and_load, str(tmp_path / f"saved-{within}"), within),
            tmp_path / f"run-{within}",
            1,
            False,
            free_port(),
        )
        for within in (False, True)
    ]
    assert not runs[0].errors and not runs[1].errors, [run.errors for run in runs]
    assert runs[0].seen == runs[1].seen
