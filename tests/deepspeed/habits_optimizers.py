"""Habits of optimizers: what makes which states, and when."""

from __future__ import annotations

from typing import Any

import torch
from habit import habit
from habit_models import Stack
from trial import Trial


def _torch_optimizer(trial: Trial, kind: Any, **arguments: Any) -> None:
    model = Stack()
    config = trial.config(optimizer=None, zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False)
    engine = trial.initialize(model, config, optimizer=kind(model.parameters(), **arguments))
    trial.steps(engine)
    trial.record_weights(engine)


def _named(trial: Trial, name: str, **parameters: Any) -> None:
    engine = trial.initialize(Stack(), trial.config(optimizer={"type": name, "params": parameters}))
    trial.steps(engine)
    trial.record_weights(engine)


@habit("DeepSpeed's CPU Lion")
def lion(trial: Trial) -> None:
    _named(trial, "Lion", lr=1e-4, weight_decay=0.01)


@habit("DeepSpeed's CPU Adagrad")
def cpu_adagrad(trial: Trial) -> None:
    _named(trial, "Adagrad", lr=1e-3)


@habit("DeepSpeed's CPU Adam, `adam_w_mode` false")
def cpu_adam(trial: Trial) -> None:
    _named(trial, "Adam", lr=1e-3, weight_decay=0.01, adam_w_mode=False)


@habit("torch AdamW")
def torch_adamw(trial: Trial) -> None:
    _torch_optimizer(trial, torch.optim.AdamW, lr=1e-3)


@habit("torch SGD with momentum")
def torch_sgd(trial: Trial) -> None:
    _torch_optimizer(trial, torch.optim.SGD, lr=1e-2, momentum=0.9)


@habit("torch SGD, without states")
def torch_plain_sgd(trial: Trial) -> None:
    _torch_optimizer(trial, torch.optim.SGD, lr=1e-2)


@habit("torch RMSprop")
def torch_rmsprop(trial: Trial) -> None:
    _torch_optimizer(trial, torch.optim.RMSprop, lr=1e-4, momentum=0.9)


@habit("torch Adagrad")
def torch_adagrad(trial: Trial) -> None:
    _torch_optimizer(trial, torch.optim.Adagrad, lr=1e-3)


@habit("Muon")
def muon(trial: Trial) -> None:
    model = Stack()
    for param in model.parameters():
        param.use_muon = param.dim() > 1
    muon = {"type": "Muon", "params": {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.01}}
    config = trial.config(optimizer=muon, zero_optimization__reduce_scatter=False)
    engine = trial.initialize(model, config)
    trial.steps(engine)
    trial.record_weights(engine)


class Growing(torch.optim.SGD):
    """Keeps all gradients it has seen."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            for param in group["params"]:
                seen = self.state[param].get("seen")
                self.state[param]["seen"] = param.grad.clone() if seen is None else torch.cat([seen, param.grad])


@habit("an optimizer whose states grow", refused="penstock cannot swap a state that changes its size")
def growing(trial: Trial) -> None:
    _torch_optimizer(trial, Growing, lr=1e-2)
