"""Habits of errors that a script catches before it trains on."""

from __future__ import annotations

import contextlib

import torch
from deepspeed.utils import safe_set_full_fp32_param
from habit import habit
from habit_models import Stack
from trial import Trial


@habit("a step that fails before its first update, tried again")
def step_again(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    trial.steps(engine, 2)
    engine.backward(trial.loss(engine))
    stage3 = engine.optimizer
    partition = stage3._partition_all_parameters

    def fail_once() -> None:
        stage3._partition_all_parameters = partition
        raise OSError("not now")

    stage3._partition_all_parameters = fail_once
    with contextlib.suppress(OSError):
        engine.step()
    engine.step()
    trial.record_norm(engine)
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("safe_set_full_fp32_param that raises, and training goes on")
def failed_set(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    trial.steps(engine, 2)
    param = engine.module.layers[0].linear.weight
    with contextlib.suppress(Exception):
        safe_set_full_fp32_param(param, torch.empty(param.ds_shape, device="meta"))
    trial.steps(engine, 2)
    trial.record_weights(engine)
