"""Habits of errors that a script catches before it trains on."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import torch
from deepspeed.utils import safe_set_full_fp32_param
from habit import habit
from habit_models import MUON, Stack, mark_for_muon
from penstock.errors import Error
from trial import Trial


def fail_once(owner: Any, name: str) -> None:
    original = getattr(owner, name)

    def fail(*_: Any) -> None:
        setattr(owner, name, original)
        raise OSError("not now")

    setattr(owner, name, fail)


def _step_again(trial: Trial, engine: Any) -> None:
    trial.steps(engine, 2)
    engine.backward(trial.loss(engine))
    fail_once(engine.optimizer, "_partition_all_parameters")
    with contextlib.suppress(OSError):
        engine.step()
    engine.step()
    trial.record_norm(engine)
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("a step that fails before its first update, tried again")
def step_again(trial: Trial) -> None:
    _step_again(trial, trial.initialize(Stack()))


@habit("a step of Muon that fails before its first update, tried again; one that fails later, and the next batch")
def step_of_muon_again(trial: Trial) -> None:
    config = trial.config(optimizer=MUON, zero_optimization__reduce_scatter=False)
    engine = trial.initialize(mark_for_muon(Stack()), config)
    _step_again(trial, engine)
    engine.backward(trial.loss(engine))
    fail_once(engine.optimizer, "_prepare_sub_group")  # Muon has written its updates over the gradients
    with contextlib.suppress(OSError):
        engine.step()
    if not trial.reference:
        try:
            engine.step()
        except Error as error:
            assert "backward()" in str(error)
        else:
            raise AssertionError("stock applies Muon twice")
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("CPU Adam's step that fails as its first chunk is read, tried again; the same in the first step", short=1)
def first_chunk_again(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    for _ in range(2):
        engine.backward(trial.loss(engine))
        if not trial.reference:
            fail_once(importlib.import_module("penstock.deepspeed.sub_group").SubGroup, "lease_of")
        try:
            engine.step()
        except OSError:  # where the step is taken in chunks: DeepSpeed before 0.19 rounds otherwise, and it is not
            engine.step()
        trial.record_norm(engine)
        masters = engine.optimizer.fp32_partitioned_groups_flat
        trial.record([engine.optimizer.optimizer.state[master]["step"] for master in masters])
    trial.steps(engine, 2)
    trial.record_weights(engine)


def _failed_set(trial: Trial, engine: Any) -> None:
    trial.steps(engine, 2)
    param = engine.module.layers[0].linear.weight
    with contextlib.suppress(Exception):
        safe_set_full_fp32_param(param, torch.empty(param.ds_shape, device="meta"))
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("safe_set_full_fp32_param that raises, and training goes on")
def failed_set(trial: Trial) -> None:
    _failed_set(trial, trial.initialize(Stack()))


@habit("safe_set_full_fp32_param that raises, and training goes on; an optimizer that is stepped whole")
def failed_set_of_whole(trial: Trial) -> None:
    model = Stack()
    config = trial.config(optimizer=None, zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False)
    _failed_set(trial, trial.initialize(model, config, optimizer=torch.optim.ASGD(model.parameters(), lr=1e-2)))
