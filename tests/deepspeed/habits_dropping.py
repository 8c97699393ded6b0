"""Habits of gradients that a script reads, sets or drops, while a branch has one in some micro-steps only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import deepspeed
import torch
from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_get_full_grad,
    safe_get_full_optimizer_state,
    safe_set_full_fp32_param,
    safe_set_full_grad,
    safe_update_full_grad_vectorized,
)
from habit import habit
from habit_models import Layer, Stack, loss_of
from habits_failures import fail_once
from habits_gradients import NO_OPTIMIZER, TIMES_0
from trial import WIDTH, Config, Trial, digest

CLIPPED: Config = {"gradient_clipping": 0.05}
IN_CYCLES: Config = {**CLIPPED, "gradient_accumulation_steps": 3}
NARROW = 256
SMALL: Config = {"zero_optimization__sub_group_size": 10_000}  # of a narrow model: all sub-groups stay in RAM


class Branching(Stack):
    """Two layers, and a branch that runs where `runs` has a 1, which begins again when it has ended."""

    def __init__(self, trial: Trial, runs: tuple[int, ...], width: int = WIDTH) -> None:
        super().__init__(2, width)
        self.branch = Layer(width)
        self._trial = trial
        self._runs = runs
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        runs = self._runs[self.calls % len(self._runs)]
        self.calls += 1
        return loss_of(x + (self.branch(x) if runs else self._trial.left_out(lambda: self.branch(x))))


def record_gradients(trial: Trial, engine: Any) -> None:
    for name, param in engine.module.named_parameters():
        trial.record("gradient", name, digest(safe_get_full_grad(param)))


def _backward(trial: Trial, engine: Any) -> None:
    engine.backward(trial.loss(engine))


@habit(
    "gradients are read between micro-steps, and a branch has none in the last; sub-groups in RAM", reference=TIMES_0
)
def read_between(trial: Trial) -> None:
    engine = trial.initialize(Branching(trial, (1, 1, 0), NARROW), trial.config(**IN_CYCLES, **SMALL))
    for micro_step in range(9):
        _backward(trial, engine)
        if micro_step % 3 == 0:
            for param in engine.module.parameters():
                safe_get_full_grad(param)
        engine.step()
    trial.record_norm(engine)
    trial.record_weights(engine)


@habit("gradients are read behind a step that an infinite one has skipped")
def read_behind_skipped(trial: Trial) -> None:
    config = trial.config(bf16={"enabled": True, "check_grad_overflow": True}, **CLIPPED)
    engine = trial.initialize(Stack(), config)
    for step in range(5):
        loss = trial.loss(engine)
        if step == 2:
            loss = loss + engine.module.norm.weight.sum() * float("inf")
        engine.backward(loss)
        engine.step()
        record_gradients(trial, engine)
    trial.record(engine.skipped_steps)
    trial.record_weights(engine)


@habit("fp16 with a dynamic loss scale")
def dynamic_scale(trial: Trial) -> None:
    deepspeed.get_accelerator().is_fp16_supported = lambda: True  # torch computes with it on any processor
    fp16 = {"enabled": True, "initial_scale_power": 26, "loss_scale_window": 2, "hysteresis": 2}
    engine = trial.initialize(Stack(2), trial.config(bf16=None, fp16=fp16, gradient_clipping=0.5))
    trial.steps(engine, 9)
    trial.record(engine.skipped_steps, engine.optimizer.loss_scale)
    trial.record_weights(engine)


def _update_vectorized(trial: Trial, width: int, **changes: Any) -> None:
    engine = trial.initialize(Branching(trial, (1, 0, 0, 1), width), trial.config(**CLIPPED, **changes))
    for _ in range(4):
        _backward(trial, engine)
        safe_update_full_grad_vectorized(list(engine.module.parameters()), lambda full, _: full * 0.25 + 0.01)
        record_gradients(trial, engine)
        engine.step()
        trial.record_norm(engine)
    trial.record_weights(engine)


@habit("safe_update_full_grad_vectorized of a branch without a gradient, sub-groups in RAM", reference=TIMES_0)
def update_vectorized_in_ram(trial: Trial) -> None:
    _update_vectorized(trial, NARROW, **SMALL)


@habit("safe_update_full_grad_vectorized of a branch without a gradient, parameters only on NVMe", reference=TIMES_0)
def update_vectorized_parameters_only(trial: Trial) -> None:
    _update_vectorized(trial, WIDTH, **NO_OPTIMIZER)


CLIPPED_LESS: Config = {"gradient_clipping": 0.5}


def _update_reaching(
    trial: Trial, engine: Any, of: Callable[[torch.Tensor, Any], torch.Tensor], is_behind: bool = False
) -> None:
    """Updates whose function does more than to compute, and may raise ValueError: the step comes all the same."""
    trial.steps(engine, 2)
    for _ in range(2):
        if not is_behind:
            _backward(trial, engine)
        record_gradients(trial, engine)
        with contextlib.suppress(ValueError):
            safe_update_full_grad_vectorized(list(engine.module.parameters()), of)
        record_gradients(trial, engine)
        engine.step()
        trial.record_norm(engine)
        trial.step(engine)
    trial.record_weights(engine)


def _from_the_rest(full: torch.Tensor, param: Any, state: str = "exp_avg") -> torch.Tensor:
    """A new gradient from all that a script can read of the parameter, of which it sets the master as well."""
    master = safe_get_full_fp32_param(param).float()
    safe_set_full_fp32_param(param, master * 0.9)
    rest = 0.1 * master + 0.3 * safe_get_full_optimizer_state(param, state).float()
    return full * 2 + rest + safe_get_full_grad(param).float()


@habit("safe_update_full_grad_vectorized whose function reads and sets the rest of the parameter")
def update_reading(trial: Trial) -> None:
    _update_reaching(trial, trial.initialize(Stack(), trial.config(**CLIPPED_LESS)), _from_the_rest)


@habit("safe_update_full_grad_vectorized whose function reads and sets the rest; a parameter in each sub-group")
def update_reading_one(trial: Trial) -> None:
    config = trial.config(zero_optimization__sub_group_size=1_000, **CLIPPED_LESS)
    _update_reaching(trial, trial.initialize(Stack(), config), _from_the_rest)


@habit("safe_update_full_grad_vectorized whose function reads and sets the rest; an optimizer that is stepped whole")
def update_reading_whole(trial: Trial) -> None:
    model = Stack()
    by_script: Config = {"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    config = trial.config(optimizer=None, **by_script, **CLIPPED_LESS)
    engine = trial.initialize(model, config, optimizer=torch.optim.ASGD(model.parameters(), lr=1e-2))
    _update_reaching(trial, engine, lambda full, param: _from_the_rest(full, param, "ax"))


@habit("safe_update_full_grad_vectorized behind a step that clips")
def update_behind(trial: Trial) -> None:
    def seen(full: torch.Tensor, _: Any) -> torch.Tensor:
        trial.record(digest(full))
        return full * 3

    _update_reaching(trial, trial.initialize(Stack(), trial.config(**CLIPPED_LESS)), seen, is_behind=True)


@habit("safe_update_full_grad_vectorized whose function raises at one parameter, and training goes on")
def update_raising(trial: Trial) -> None:
    calls = iter(range(1000))

    def raising(full: torch.Tensor, _: Any) -> torch.Tensor:
        if next(calls) % 5 == 3:
            raise ValueError
        return full * 3

    _update_reaching(trial, trial.initialize(Stack(), trial.config(**CLIPPED_LESS)), raising)


@habit(
    "gradients of a branch are set behind a step, zero_grad() drops them, and the next batches have none of it",
    reference=TIMES_0,
)
def set_and_zeroed(trial: Trial) -> None:
    engine = trial.initialize(Branching(trial, (1, 1, 0, 0)), trial.config())
    trial.steps(engine, 2)
    for param in engine.module.branch.parameters():
        safe_set_full_grad(param, torch.full(param.ds_shape, 0.01))
    engine.optimizer.zero_grad()
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit(
    "a batch is dropped by zero_grad(), and the next one has no gradient of a branch",
    reference="`device: cpu` without that batch, that part times 0",
)
def zeroed(trial: Trial) -> None:
    engine = trial.initialize(Branching(trial, (0, 1, 0, 0, 1, 0, 0)), trial.config(**CLIPPED))
    for step in range(5):
        if step % 2 == 1:
            loss = trial.loss(engine)
            if not trial.reference:
                engine.backward(loss)
                engine.optimizer.zero_grad()
        _backward(trial, engine)
        engine.step()
        trial.record_norm(engine)
        record_gradients(trial, engine)
    trial.record_weights(engine)


def _dropped_by_failure(trial: Trial, runs: tuple[int, ...], micro_steps: int, sets: bool, **changes: Any) -> None:
    """Every other cycle ends in a step that fails before its first update, and the script goes on without it."""
    engine = trial.initialize(Branching(trial, runs), trial.config(**changes))
    steps_each = engine.managed_gradient_accumulation()
    for cycle in range(5):
        is_dropped = cycle % 2 == 1
        for micro_step in range(micro_steps):
            loss = trial.loss(engine)
            if is_dropped and trial.reference:
                continue
            engine.backward(loss)
            if micro_step < micro_steps - 1:
                if steps_each:
                    engine.step()
                continue
            if sets:
                safe_set_full_grad(engine.module.layers[1].linear.weight, torch.full((WIDTH, WIDTH), 0.125 * cycle))
            if is_dropped:
                fail_once(engine.optimizer, "_partition_all_parameters")
            with contextlib.suppress(OSError):
                engine.step()
        if not is_dropped:
            trial.record_norm(engine)
            record_gradients(trial, engine)
    trial.record_weights(engine)


WITHOUT_FAILED = "`device: cpu` without the failed steps, that part times 0"


@habit("cycles whose step fails are given up, and the next have no gradient of a branch", reference=WITHOUT_FAILED)
def given_up(trial: Trial) -> None:
    runs = (1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0)
    _dropped_by_failure(trial, runs, 3, False, **IN_CYCLES)


@habit(
    "cycles whose step fails are given up, and gradients are set, with `managed_gradient_accumulation` false",
    reference=WITHOUT_FAILED,
)
def given_up_unmanaged(trial: Trial) -> None:
    _dropped_by_failure(trial, (1,), 2, True, managed_gradient_accumulation=False, **CLIPPED)
