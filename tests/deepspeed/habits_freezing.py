"""Habits of layers that are frozen for some time."""

from __future__ import annotations

from typing import Any

import torch
from habit import habit
from habit_models import Stack
from habits_gradients import NO_OPTIMIZER, TIMES_0
from torch import nn
from trial import Trial


@habit("parameters on NVMe, none of the optimizer's, and a layer frozen between backward and step")
def frozen_behind_backward(trial: Trial) -> None:
    engine = trial.initialize(Stack(), trial.config(**NO_OPTIMIZER))
    for number in (0, 1, 0):
        engine.backward(trial.loss(engine))
        engine.module.layers[number].requires_grad_(False)
        engine.step()
        engine.module.layers[number].requires_grad_(True)
        trial.record_norm(engine)
    trial.record_weights(engine)


class Freezing(nn.Module):
    """Has no gradient where it is frozen; in the reference its matrix counts times 0 there."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1024, 1024) / 32)
        self.is_frozen = False
        self._trial = trial

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight.detach() + 0 * self.weight if self.is_frozen and self._trial.reference else self.weight
        return x + torch.tanh(x @ weight)


def _frozen_in_the_last(trial: Trial, **changes: Any) -> None:
    model, part = Stack(), Freezing(trial)
    model.layers[1] = part
    engine = trial.initialize(model, trial.config(gradient_accumulation_steps=2, gradient_clipping=0.1, **changes))
    for micro_step in range(8):
        part.is_frozen = micro_step % 2 == 1
        part.weight.requires_grad_(trial.reference or not part.is_frozen)
        trial.step(engine)
    part.weight.requires_grad_(True)
    trial.record_weights(engine)


@habit("a layer frozen in the last micro-step of each cycle", reference=TIMES_0)
def frozen_in_the_last(trial: Trial) -> None:
    _frozen_in_the_last(trial)


@habit("a layer frozen in the last micro-step of each cycle, parameters only on NVMe", reference=TIMES_0)
def frozen_in_the_last_parameters_only(trial: Trial) -> None:
    _frozen_in_the_last(trial, **NO_OPTIMIZER)
