"""Habits of scripts that keep, replace or add to what is in `optimizer.state`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import deepspeed
import torch
from checkpoints import convert
from deepspeed.ops.adam import DeepSpeedCPUAdam
from deepspeed.utils import safe_get_full_optimizer_state
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


def _train_on(trial: Trial, engine: Any, steps: int) -> None:
    trial.steps(engine, steps)
    trial.record_weights(engine)
    _record_states(trial, _states(engine))


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


@habit("moments kept over steps, and changed in place, torch AdamW")
def moments_kept(trial: Trial) -> None:
    engine = _engine(trial, torch.optim.AdamW, lr=1e-3)
    trial.steps(engine, 1)
    kept = [state[name] for state in _states(engine) for name in ("exp_avg", "exp_avg_sq")]
    trial.steps(engine, 2)
    trial.record([digest(moment.detach().clone()) for moment in kept])
    for moment in kept:
        moment.mul_(0.5)
    _train_on(trial, engine, 2)


@habit("moments replaced, then read with safe_get_full_optimizer_state, DeepSpeed's CPU Adam")
def moments_replaced_and_read(trial: Trial) -> None:
    engine = _engine(trial, DeepSpeedCPUAdam, lr=1e-3)
    trial.steps(engine, 2)
    for state in _states(engine):
        state["exp_avg"] = torch.full_like(state["exp_avg"], 0.25)
    for name, param in engine.module.named_parameters():
        trial.record(name, digest(safe_get_full_optimizer_state(param, "exp_avg")))
    _train_on(trial, engine, 2)


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
    _train_on(trial, engine, 2)


@habit("moments kept from before a load of a universal checkpoint, and changed behind it")
def moments_of_before_universal(trial: Trial) -> None:
    directory = str(Path(trial.swap).parent / "saved")
    engine = _engine(trial, torch.optim.AdamW, lr=1e-3)
    trial.steps(engine, 2)
    engine.save_checkpoint(directory, tag="saved")
    if trial.rank == 0:
        convert(directory, "saved")
    deepspeed.comm.barrier()
    trial.steps(engine, 2)
    before = [dict(state) for state in _states(engine)]
    engine._config.load_universal_checkpoint = True
    engine.load_checkpoint(directory, tag="universal")
    _record_states(trial, before)
    for state in before:
        state["exp_avg"].mul_(0)
    _train_on(trial, engine, 2)


@habit("hooks of the optimizer's state_dict() and load_state_dict() that change moments", short=1)
def hooks_of_its_dict(trial: Trial) -> None:
    directory = str(Path(trial.swap).parent / "saved")
    engine = _engine(trial, torch.optim.AdamW, lr=1e-3)

    def halved(_: Any, saved: dict[str, Any]) -> dict[str, Any]:
        states = {key: {**state, "exp_avg": state["exp_avg"] * 0.5} for key, state in saved["state"].items()}
        return {**saved, "state": states, "note": "halved"}

    def with_other_name(_: Any, saved: dict[str, Any]) -> None:
        for state in saved["state"].values():
            state["squares"] = state.pop("exp_avg_sq")

    def with_own_name(_: Any, saved: dict[str, Any]) -> None:
        trial.record(saved["note"])
        for state in saved["state"].values():
            trial.record(digest(state["squares"].clone()))
            state["exp_avg_sq"] = state.pop("squares") * 4

    def tripled(optimizer: Any) -> None:
        for state in optimizer.state.values():
            state["exp_avg"].mul_(3)

    optimizer = engine.optimizer.optimizer
    optimizer.register_state_dict_post_hook(halved)
    optimizer.register_state_dict_post_hook(with_other_name)
    optimizer.register_load_state_dict_pre_hook(with_own_name)
    optimizer.register_load_state_dict_post_hook(tripled)
    trial.steps(engine, 2)
    engine.save_checkpoint(directory)
    kept = copy.deepcopy(engine.optimizer.state_dict())
    trial.steps(engine, 2)
    engine.load_checkpoint(directory)
    _record_states(trial, _states(engine))
    trial.steps(engine, 2)
    trial.record_weights(engine)
    engine.optimizer.load_state_dict({trial.rank: kept})
    _record_states(trial, _states(engine))
    trial.steps(engine, 2)
    trial.record_weights(engine)


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
    _train_on(trial, engine, 2)


@habit("torch SGD in the place of the inner AdamW, and AdamW back")
def another_optimizer(trial: Trial) -> None:
    engine = _engine(trial, torch.optim.AdamW, lr=1e-3)
    trial.steps(engine, 2)
    first = engine.optimizer.optimizer
    engine.optimizer.optimizer = torch.optim.SGD([{"params": []}, {"params": []}], lr=1e-2, momentum=0.9)
    trial.steps(engine, 2)
    _record_states(trial, _states(engine))
    _record_states(trial, [first.state[master] for master in engine.optimizer.fp32_partitioned_groups_flat])
    engine.optimizer.optimizer = first
    _train_on(trial, engine, 2)


@habit("a parameter of the script's own in the inner torch AdamW, for a while")
def own_parameter(trial: Trial) -> None:
    engine = _engine(trial, torch.optim.AdamW, lr=1e-3)
    trial.steps(engine, 1)
    optimizer, own = engine.optimizer.optimizer, torch.nn.Parameter(torch.ones(3))
    optimizer.add_param_group({"params": [own], "lr": 1e-2})
    for number in range(3):
        own.grad = torch.full((3,), number + 0.5)
        trial.steps(engine, 1)
        trial.record(own.tolist(), float(optimizer.state[own]["step"]))
    del optimizer.param_groups[-1], optimizer.state[own]
    _train_on(trial, engine, 1)


@habit("a checkpoint whose momentum a hook has rounded to bf16, loaded and trained on")
def rounded_by_hook(trial: Trial) -> None:
    directory = str(Path(trial.swap).parent / "saved")
    engine = _engine(trial, torch.optim.SGD, lr=1e-2, momentum=0.9)

    def rounded(_: Any, saved: dict[str, Any]) -> None:
        for state in saved["state"].values():
            if state.get("momentum_buffer") is not None:
                state["momentum_buffer"] = state["momentum_buffer"].bfloat16()

    engine.optimizer.optimizer.register_state_dict_post_hook(rounded)
    trial.steps(engine, 2)
    engine.save_checkpoint(directory)
    trial.steps(engine, 1)
    engine.load_checkpoint(directory)
    _record_states(trial, _states(engine))
    _train_on(trial, engine, 2)


@habit("CPU Adam loads a checkpoint of torch SGD, whose states and values the script replaces")
def other_optimizer_loaded(trial: Trial) -> None:
    directory = str(Path(trial.swap).parent / "saved")
    engine = _engine(trial, torch.optim.SGD, lr=1e-2, momentum=0.9)
    trial.steps(engine, 2)
    engine.save_checkpoint(directory)
    engine.destroy()
    trial.engines.remove(engine)
    engine = _engine(trial, DeepSpeedCPUAdam, lr=1e-3)
    own = [{**group} for group in engine.optimizer.param_groups]
    engine.load_checkpoint(directory)
    for group, values in zip(engine.optimizer.param_groups, own, strict=True):
        group.update({name: value for name, value in values.items() if name != "params"})
    engine.optimizer.optimizer.state.clear()
    trial.steps(engine, 3)
    trial.record_weights(engine)


class Around(torch.optim.Optimizer):
    """Shows the groups and states of torch's AdamW, and keeps both in a form of its own."""

    def __init__(self, groups: Any, **arguments: Any) -> None:
        self.inner = torch.optim.AdamW(groups, **arguments)
        self.defaults = self.inner.defaults
        self.steps = torch.zeros(1)

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self.inner.state

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        return self.inner.param_groups

    def step(self, closure: Any = None) -> Any:
        self.steps += 1
        return self.inner.step(closure)

    def state_dict(self) -> dict[str, Any]:
        return {"inner": [self.inner.state_dict()], "steps": self.steps}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self.inner.load_state_dict(saved["inner"][0])
        self.steps = saved["steps"].clone()


@habit("an optimizer around another, with a `state_dict()` of its own form, saved and resumed in a new engine")
def around_another(trial: Trial) -> None:
    directory = str(Path(trial.swap).parent / "saved")
    for loads in (False, True):
        engine = _engine(trial, Around, lr=1e-3)
        if loads:
            engine.load_checkpoint(directory)
        else:
            trial.steps(engine, 2)
            engine.save_checkpoint(directory)
            torch.manual_seed(23 + trial.rank)
        saved = engine.optimizer.state_dict()["optimizer_state_dict"]
        for state in saved["inner"][0]["state"].values():
            trial.record({name: digest(value) for name, value in state.items()})
        trial.record(saved["steps"].item())
        _train_on(trial, engine, 2)
        engine.destroy()
        trial.engines.remove(engine)


@habit("moments changed by collectives, `apply_`, `map_` and `set_`")
def moments_changed_uncounted(trial: Trial) -> None:
    engine = trial.initialize(Uneven())
    trial.steps(engine, 2)
    for state in _states(engine):
        torch.distributed.all_reduce(state["exp_avg"])
        torch.distributed.broadcast(state["exp_avg_sq"], 0)
    trial.steps(engine, 1)
    for state in _states(engine):
        state["exp_avg"].map_(state["exp_avg"].clone(), lambda ours, theirs: ours / 2 + theirs)
        state["exp_avg_sq"].apply_(abs)
    trial.steps(engine, 1)
    for state in _states(engine):
        state["exp_avg"].set_(state["exp_avg"] * 0.5)
    _train_on(trial, engine, 2)


@habit("a checkpoint of torch's Adagrad from before its first step")
def adagrad_before_its_first_step(trial: Trial) -> None:
    """Stage 3 saves each of its masters twice then, and loads such a file before a first step alone."""
    directory = str(Path(trial.swap).parent / "saved")
    config = trial.config(optimizer=None, zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False)
    for is_first in (True, False):
        torch.manual_seed(5)
        model = Uneven()
        optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-2, initial_accumulator_value=0.1)
        engine = trial.initialize(model, config, optimizer=optimizer)
        if is_first:
            engine.save_checkpoint(directory)
        else:
            if not trial.reference:
                engine.backward(engine(trial.batch()))
                engine.step()
                torch.manual_seed(17 + trial.rank)
            engine.load_checkpoint(directory)
        _train_on(trial, engine, 2)
        engine.destroy()
        trial.engines.remove(engine)


class Keeping(torch.optim.AdamW):
    """Loads second moments only, into those that are there."""

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        masters = [master for group in self.param_groups for master in group["params"]]
        for number, master in enumerate(masters):
            self.state[master]["exp_avg_sq"].copy_(saved["state"][number]["exp_avg_sq"])


def _merge(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(optimizer.state_dict())
    for number, state in saved["state"].items():
        merged["state"][number]["exp_avg"] = state["exp_avg"]
    return merged


@habit("a checkpoint for an optimizer whose `load_state_dict()`, or a hook before it, keeps some of its states")
def keeps_states(trial: Trial) -> None:
    directory = str(Path(trial.swap).parent / "saved")
    for kind in (Keeping, torch.optim.AdamW):
        engine = _engine(trial, kind, lr=1e-3)
        if kind is not Keeping:
            engine.optimizer.optimizer.register_load_state_dict_pre_hook(_merge)
        trial.steps(engine, 2)
        engine.save_checkpoint(directory)
        trial.steps(engine, 2)
        engine.load_checkpoint(directory)
        _train_on(trial, engine, 2)
        engine.destroy()
        trial.engines.remove(engine)
