"""Loads and saves that end in an error before anything has changed: training goes on as if they had not been tried."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import free_port
from habit_process import equals_reference, run


class OtherScheduler:
    def load_state_dict(self, _: Any) -> None:
        raise KeyError("T_max")


def scheduler_fails(trial: Any) -> None:
    """Another scheduler than the checkpoint's, which DeepSpeed finds out before it takes masters and states."""
    from habit_models import Stack

    model = Stack()
    config = trial.config(optimizer={"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}})
    config["zero_force_ds_cpu_optimizer"] = False
    engine = trial.initialize(model, config, lr_scheduler=lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda _: 1.0))
    trial.steps(engine, 2)
    engine.save_checkpoint(trial.swap + "/saved", tag="good")
    trial.steps(engine, 1)

    scheduler, engine.lr_scheduler = engine.lr_scheduler, OtherScheduler()
    with pytest.raises(KeyError, match="T_max"):
        engine.load_checkpoint(trial.swap + "/saved", tag="good")
    engine.lr_scheduler = scheduler
    trial.record_weights(engine)
    trial.steps(engine, 2)
    trial.record_weights(engine)
    engine.save_checkpoint(trial.swap + "/saved", tag="next")


def test_a_load_that_fails_before_contents_change(compiled: None, tmp_path: Path) -> None:
    equals_reference(scheduler_fails, tmp_path, 1)


def other_groups(trial: Any) -> None:
    from habit_models import Stack
    from penstock.errors import ArgumentError

    def made(count: int) -> Any:
        model = Stack()
        params = list(model.parameters())
        cuts = [len(params) * number // count for number in range(count + 1)]
        groups = [{"params": params[begin:end]} for begin, end in itertools.pairwise(cuts)]
        return trial.initialize(model, trial.config(zero_optimization__sub_group_size=1), model_parameters=groups)

    first = made(2)
    trial.steps(first, 1)
    first.save_checkpoint(trial.swap + "/saved", tag="good")
    first.destroy()
    second = made(1)
    trial.steps(second, 1)
    trial.seen.clear()
    trial.record_weights(second)
    before = list(trial.seen)
    with pytest.raises(ArgumentError, match="it was saved with other parameter groups"):
        second.load_checkpoint(trial.swap + "/saved", tag="good")
    trial.seen.clear()
    trial.record_weights(second)
    assert trial.seen == before
    trial.steps(second, 1)


def cut_moments(trial: Any) -> None:
    """A file that something else has written: the first step would fail, behind a load that went well."""
    from habit_models import Stack
    from penstock.errors import ArgumentError

    engine = trial.initialize(Stack())
    trial.steps(engine, 2)
    engine.save_checkpoint(trial.swap + "/saved", tag="good")
    (path,) = Path(trial.swap, "saved", "good").glob("*_optim_states.pt")
    saved = torch.load(path, weights_only=False)
    state = saved["optimizer_state_dict"]["optimizer_state_dict"]["state"][0]
    state["exp_avg_sq"] = state["exp_avg_sq"][:100].clone()
    torch.save(saved, path)
    trial.steps(engine, 1)
    trial.seen.clear()
    trial.record_weights(engine)
    before = list(trial.seen)
    with pytest.raises(ArgumentError, match=r"exp_avg_sq of sub-group 0 in .* has 100 elements, its master"):
        engine.load_checkpoint(trial.swap + "/saved", tag="good")
    trial.seen.clear()
    trial.record_weights(engine)
    assert trial.seen == before
    trial.steps(engine, 1)


def within_a_step(trial: Any) -> None:
    from habit_models import Stack
    from penstock.deepspeed.session import close_session
    from penstock.errors import Error, UnsupportedError

    engine = trial.initialize(Stack())
    trial.steps(engine, 1)
    said = []

    def save(*_: Any) -> None:
        with pytest.raises(UnsupportedError, match=r"behind engine\.step\(\); a handler may set a flag") as refused:
            engine.save_checkpoint(trial.swap + "/saved")
        said.append(refused)

    hook = engine.optimizer.optimizer.register_step_pre_hook(save)
    trial.steps(engine, 1)
    hook.remove()
    assert said
    trial.steps(engine, 1)
    engine.save_checkpoint(trial.swap + "/saved")
    engine.destroy()
    for late in (engine.save_checkpoint, engine.load_checkpoint):
        with pytest.raises(Error, match=r"this engine was destroyed.*: save before engine\.destroy\(\)"):
            late(trial.swap + "/saved")
    other = trial.initialize(Stack())
    close_session()
    with pytest.raises(Error, match="the run is ending"):  # of a function that atexit calls behind penstock's own
        other.save_checkpoint(trial.swap + "/saved", tag="late")


def uninstalled(trial: Any) -> None:
    from habit_models import Stack
    from penstock.deepspeed import is_installed, uninstall
    from penstock.errors import Error

    engine = trial.initialize(Stack())
    with pytest.raises(Error, match="delete the engine first"):
        uninstall()
    assert is_installed()
    trial.steps(engine, 1)
    trial.engines.clear()
    del engine
    uninstall()
    assert not is_installed()


@pytest.mark.parametrize("training", [other_groups, cut_moments, within_a_step, uninstalled])
def test_nothing_has_changed(compiled: None, tmp_path: Path, training: Any) -> None:
    result = run(training, tmp_path / "run", 1, False, free_port())
    assert not result.errors, result.log
