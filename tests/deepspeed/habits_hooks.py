"""Habits of hooks of the optimizer's step, which get and set what is stepped."""

from __future__ import annotations

from typing import Any

from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_get_full_grad,
    safe_get_full_optimizer_state,
    safe_set_full_fp32_param,
    safe_set_full_grad,
    safe_set_full_optimizer_state,
)
from habit import habit
from habit_models import Stack
from trial import Trial, digest


@habit("a hook of the optimizer's step that reads a parameter's master and gradient")
def read_in_hook(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    param = next(engine.module.parameters())
    engine.optimizer.optimizer.register_step_post_hook(
        lambda *_: trial.record(digest(safe_get_full_fp32_param(param)), digest(safe_get_full_grad(param)))
    )
    trial.steps(engine)
    trial.record_weights(engine)


def _set_in_hooks(trial: Trial, **changes: Any) -> None:
    """Before each sub-group's step gradients are set, behind it masters and states: of one that is stepped in memory,
    and of one that is not.
    """
    engine = trial.initialize(Stack(), trial.config(**changes))
    first, *_, last = (param for param in engine.module.parameters() if len(param.ds_shape) > 1)
    optimizer = engine.optimizer.optimizer

    def before(*_: Any) -> None:
        for param in (first, last):
            safe_set_full_grad(param, safe_get_full_grad(param) * 0.5)

    def behind(*_: Any) -> None:
        for param in (first, last):
            safe_set_full_fp32_param(param, safe_get_full_fp32_param(param).clamp(-0.02, 0.02))
            if param is first:  # the last has none before the end of the first step
                moment = safe_get_full_optimizer_state(param, "exp_avg")
                safe_set_full_optimizer_state(param, moment * 0.75, "exp_avg")

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(behind)
    trial.steps(engine)
    trial.record_weights(engine)
    trial.record(digest(safe_get_full_fp32_param(first)), digest(safe_get_full_optimizer_state(first, "exp_avg")))


@habit("hooks of the step of DeepSpeed's CPU Adam that set gradients, masters and states")
def set_in_hooks(trial: Trial) -> None:
    _set_in_hooks(trial)


@habit("hooks of the step of torch AdamW that set gradients, masters and states")
def set_in_hooks_torch(trial: Trial) -> None:
    adamw = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}
    _set_in_hooks(trial, optimizer=adamw, zero_force_ds_cpu_optimizer=False)


@habit("engine.optimizer.state_dict() in a hook of the optimizer's step", refused="ask for it behind engine.step()")
def state_dict_in_hook(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    engine.optimizer.optimizer.register_step_post_hook(lambda *_: engine.optimizer.state_dict())
    trial.steps(engine)
