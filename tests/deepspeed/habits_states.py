"""Habits of scripts that keep, replace or add to what is in `optimizer.state`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from habit import habit
from habit_models import Uneven
from trial import Trial, digest


def _engine(trial: Trial, kind: Any, **arguments: Any) -> Any:
    """Two groups, of which the second has `momentum` 0 where the optimizer has one."""
    torch.manual_seed(5)
    model = Uneven()
    config = trial.config(optimizer=None, zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False)
    params = list(model.parameters())
    groups: list[dict[str, Any]] = [{"params": params[:4]}, {"params": params[4:]}]
    if "momentum" in arguments:
        groups[1]["momentum"] = 0.0
    return trial.initialize(model, config, optimizer=kind(groups, **arguments))


def _states(engine: Any) -> list[dict[str, Any]]:
    optimizer = engine.optimizer
    return [optimizer.optimizer.state[master] for master in optimizer.fp32_partitioned_groups_flat]


def _record_states(trial: Trial, states: list[dict[str, Any]]) -> None:
    for number, state in enumerate(states):
        for name, value in sorted(state.items()):
            shown = digest(value.detach().clone()) if torch.is_tensor(value) else value
            trial.record(number, name, shown)


@habit("moments put aside, replaced by zeros, and put back")
def moments_put_aside(trial: Trial) -> None:
    engine = _engine(trial, torch.optim.AdamW, lr=1e-3)
    trial.steps(engine, 2)
    aside = [state["exp_avg"] for state in _states(engine)]
    for state in _states(engine):
        state["exp_avg"] = torch.zeros_like(state["exp_avg"])
    trial.steps(engine, 2)
    trial.record([digest(moment.detach().clone()) for moment in aside])
    for state, moment in zip(_states(engine), aside, strict=True):
        state["exp_avg"] = moment
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("moments kept from before a load, and changed behind it")
def moments_of_before(trial: Trial) -> None:
    directory = str(Path(trial.swap).parent / "saved")
    engine = _engine(trial, torch.optim.AdamW, lr=1e-3)
    trial.steps(engine, 2)
    engine.save_checkpoint(directory)
    trial.steps(engine, 2)
    before = [dict(state) for state in _states(engine)]
    engine.load_checkpoint(directory)
    _record_states(trial, before)
    for state in before:
        state["exp_avg"].mul_(0)
    trial.steps(engine, 2)
    trial.record_weights(engine)
    _record_states(trial, _states(engine))


@habit("the dicts of `optimizer.state` kept over steps; entries of the script's that share memory, saved and resumed")
def dicts_kept(trial: Trial) -> None:
    directory = str(Path(trial.swap).parent / "saved")
    engine = _engine(trial, torch.optim.AdamW, lr=1e-3)
    trial.steps(engine, 1)
    kept, table = _states(engine), torch.arange(6.0).view(2, 3)
    trial.steps(engine, 1)
    trial.record([state is other for state, other in zip(kept, _states(engine), strict=True)])
    for state in kept:
        state["exp_avg"] = torch.zeros_like(state["exp_avg"])
        state.update(table=table, row=table[1], within=[table[0], torch.arange(600_000.0)])
    trial.steps(engine, 1)
    engine.save_checkpoint(directory)
    engine.load_checkpoint(directory)
    states = _states(engine)
    states[0]["table"].add_(1)
    for state in states:
        trial.record(
            state["table"].tolist(), state["row"].tolist(), state["within"][0].tolist(), state["within"][1].sum()
        )
        for name in ("table", "row", "within"):
            del state[name]
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("torch SGD, momentum in one of two groups, later in both")
def momentum_in_one_group(trial: Trial) -> None:
    engine = _engine(trial, torch.optim.SGD, lr=1e-2, momentum=0.9)
    trial.steps(engine, 2)
    _record_states(trial, _states(engine))
    engine.optimizer.optimizer.param_groups[1]["momentum"] = 0.5
    trial.steps(engine, 2)
    trial.record_weights(engine)
    _record_states(trial, _states(engine))
