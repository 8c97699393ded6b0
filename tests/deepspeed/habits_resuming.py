"""Habits of scripts that load what they have saved: behind a failed step, in a new engine."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
from habit import habit
from habit_models import Stack
from habits_dropping import CLIPPED, Branching, record_gradients
from trial import Trial


def _saved(trial: Trial, engine: Any) -> str:
    directory = str(Path(trial.swap).parent / "saved")
    engine.save_checkpoint(directory)
    return directory


@habit(
    "a step fails between two sub-groups, the script loads, and the next batches have no gradient of a branch",
    reference="`device: cpu` without the failed step, that part times 0",
)
def loaded_behind_half(trial: Trial) -> None:
    engine = trial.initialize(Branching(trial, (1, 1, 0, 0, 1)), trial.config(**CLIPPED))
    trial.step(engine)
    saved = _saved(trial, engine)
    loss = trial.loss(engine)
    if not trial.reference:
        engine.backward(loss)
        _fail_at(engine.optimizer, 1)
        with contextlib.suppress(OSError):
            engine.step()
    engine.load_checkpoint(saved)
    for _ in range(3):
        trial.step(engine)
        record_gradients(trial, engine)
    trial.record_weights(engine)


def _fail_at(optimizer: Any, sub_group: int) -> None:
    original = optimizer._prepare_sub_group

    def prepare(number: int, *arguments: Any, **options: Any) -> None:
        if number == sub_group:
            optimizer._prepare_sub_group = original
            raise OSError("not now")
        original(number, *arguments, **options)

    optimizer._prepare_sub_group = prepare


@habit(
    "CPU Adam with one sub-group, saved after 12 of 40 steps and resumed in a new engine",
    reference="`device: cpu`, not interrupted",
)
def one_sub_group(trial: Trial) -> None:
    """The powers of the betas differ from those that are computed anew in the last bit, at some steps."""
    changes = {"optimizer__params__betas": [0.7, 0.97], "zero_optimization__sub_group_size": 1_000_000_000}
    engine = trial.initialize(Stack(1), trial.config(**changes))
    trial.steps(engine, 12)
    if not trial.reference:
        saved, drawn = _saved(trial, engine), torch.get_rng_state()
        engine.destroy()
        engine = trial.initialize(Stack(1), trial.config(**changes))
        engine.load_checkpoint(saved)
        torch.set_rng_state(drawn)
    trial.steps(engine, 28)
    trial.record_weights(engine)
