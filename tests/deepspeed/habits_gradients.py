"""Habits of gradients: missing, accumulated, clipped, set by the script, without a backward."""

from __future__ import annotations

from typing import Any

import torch
from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_get_full_grad,
    safe_get_full_optimizer_state,
    safe_get_local_fp32_param,
    safe_get_local_grad,
    safe_get_local_optimizer_state,
    safe_set_full_fp32_param,
    safe_set_full_grad,
    safe_set_full_optimizer_state,
    safe_set_local_fp32_param,
    safe_set_local_grad,
    safe_set_local_optimizer_state,
    safe_update_full_grad_vectorized,
)
from habit import habit
from habit_models import MUON, Layer, Sparse, Stack, mark_for_muon
from torch import nn
from trial import Config, Trial, digest

TIMES_0 = "`device: cpu`, that part times 0"
LOSS_TIMES_0 = "`device: cpu`, a backward of the loss times 0"
IN_RAM = {"zero_optimization__offload_param": None}
NO_OPTIMIZER = {"zero_optimization__offload_optimizer": None}
FP32 = {"bf16": None}


@habit("plain training, bf16", short=1)
def plain(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    trial.steps(engine)
    trial.record_weights(engine)


@habit("accumulation over 3 micro-steps, clipping", short=2)
def accumulation(trial: Trial) -> None:
    engine = trial.initialize(Stack(), trial.config(gradient_accumulation_steps=3, gradient_clipping=0.5))
    trial.steps(engine, 9)
    trial.record_weights(engine)


@habit("more gradients than a bucket of one rank holds", ranks=(1,))
def many_gradients(trial: Trial) -> None:
    engine = trial.initialize(Stack(20), trial.config(gradient_accumulation_steps=2, gradient_clipping=0.5))
    trial.steps(engine, 4)
    trial.record_weights(engine)


# Parts without a gradient.


def _sparse(trial: Trial, config: Config, steps: int = 6, model: nn.Module | None = None) -> None:
    engine = trial.initialize(model or Sparse(trial), config)
    trial.steps(engine, steps)
    trial.record_weights(engine)


@habit("no gradient: a branch, experts; clipping", short=1, reference=TIMES_0)
def missing_clipped(trial: Trial) -> None:
    _sparse(trial, trial.config(gradient_clipping=1.0))


@habit("no gradient, without clipping", reference=TIMES_0)
def missing(trial: Trial) -> None:
    _sparse(trial, trial.config())


@habit("no gradient, accumulation over 3 micro-steps", reference=TIMES_0)
def missing_accumulated(trial: Trial) -> None:
    _sparse(trial, trial.config(gradient_accumulation_steps=3, gradient_clipping=1.0), 12)


@habit("no gradient, sub-groups in RAM", reference=TIMES_0)
def missing_small(trial: Trial) -> None:
    config = trial.config(zero_optimization__sub_group_size=10_000, gradient_accumulation_steps=3)
    _sparse(trial, config, 12, Sparse(trial, 256))


@habit("no gradient, parameters only on NVMe", reference=TIMES_0)
def missing_parameters_only(trial: Trial) -> None:
    _sparse(trial, trial.config(**NO_OPTIMIZER, gradient_accumulation_steps=3), 12)


@habit("no gradient, optimizer only on NVMe", reference=TIMES_0)
def missing_optimizer_only(trial: Trial) -> None:
    _sparse(trial, trial.config(**IN_RAM, gradient_clipping=1.0))


@habit("no gradient, frozen parts", reference=TIMES_0)
def missing_frozen(trial: Trial) -> None:
    model = Sparse(trial)
    for layer in list(model.layers)[:2]:
        layer.requires_grad_(False)
    _sparse(trial, trial.config(gradient_clipping=1.0), 6, model)


@habit("no gradient, fp32, one sub-group", reference=TIMES_0)
def missing_fp32(trial: Trial) -> None:
    _sparse(trial, trial.config(**FP32, zero_optimization__sub_group_size=1_000_000_000))


# Steps and backwards that do not come in turn.


def _odd_steps(trial: Trial, **changes: Any) -> None:
    """A backward of nothing, in the reference, where the script has none."""
    engine = trial.initialize(mark_for_muon(Stack()), trial.config(**changes))

    def without_backward() -> None:
        if trial.reference:
            engine.backward(engine(torch.zeros(4, 1024, device=trial.device)) * 0)
        engine.step()
        trial.record_norm(engine)

    without_backward()
    trial.step(engine)
    without_backward()
    without_backward()
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("step() without backward(), and twice", short=1, reference=LOSS_TIMES_0)
def steps_without_backward(trial: Trial) -> None:
    _odd_steps(trial, gradient_clipping=1.0)


@habit("step() without backward(), parameters only on NVMe", reference=LOSS_TIMES_0)
def steps_without_backward_parameters_only(trial: Trial) -> None:
    _odd_steps(trial, **NO_OPTIMIZER)


@habit("step() without backward(), Muon", reference=LOSS_TIMES_0)
def steps_without_backward_muon(trial: Trial) -> None:
    _odd_steps(trial, optimizer=MUON, zero_optimization__reduce_scatter=False)


@habit("step() without backward(), Muon, parameters only on NVMe", reference=LOSS_TIMES_0)
def steps_without_backward_muon_parameters_only(trial: Trial) -> None:
    _odd_steps(trial, optimizer=MUON, zero_optimization__reduce_scatter=False, **NO_OPTIMIZER)


@habit("backward of the loss times 0")
def loss_times_0(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    for step in range(5):
        loss = trial.loss(engine)
        engine.backward(loss * (step % 2))
        engine.step()
        trial.record_norm(engine)
    trial.record_weights(engine)


@habit("torch.autograd.grad of the input, then a backward", reference="`device: cpu`, zero_grad() between the two")
def gradient_of_input(trial: Trial) -> None:
    """As adversarial training has it. Stage 3 counts it as a micro-step, so that stock DeepSpeed adds the gradients of
    the backward behind it to those of the step before.
    """
    engine = trial.initialize(Stack(), trial.config(gradient_clipping=1.0))
    for _ in range(4):
        batch = trial.batch().requires_grad_()
        (gradient,) = torch.autograd.grad(engine(batch), batch)
        trial.record("of the input", digest(gradient))
        if trial.reference:
            engine.optimizer.zero_grad()
        trial.step(engine, batch.detach() + gradient.sign() / 8)
    trial.record_weights(engine)


@habit("a step skipped for an infinite gradient")
def skipped(trial: Trial) -> None:
    config = trial.config(bf16={"enabled": True, "check_grad_overflow": True}, gradient_clipping=1.0)
    engine = trial.initialize(Stack(), config)
    for step in range(5):
        loss = trial.loss(engine)
        engine.backward(loss * (float("inf") if step in (1, 2) else 1.0))
        engine.step()
        trial.record(step, engine.skipped_steps)
    trial.record_weights(engine)


# Gradients, masters and states that the script reads and sets.


def _trained(engine: Any) -> list[tuple[str, Any]]:
    return [(name, param) for name, param in engine.module.named_parameters() if param.requires_grad]


def _see_all(trial: Trial, engine: Any) -> None:
    for name, param in _trained(engine):
        trial.record(name, "gradient", digest(safe_get_full_grad(param)))
        trial.record(name, "local", digest(safe_get_local_grad(param)), digest(safe_get_local_fp32_param(param)))
        trial.record(name, "moment", digest(safe_get_local_optimizer_state(param, "exp_avg")))


def _set_full(trial: Trial, engine: Any) -> None:
    for _, param in _trained(engine):
        safe_set_full_fp32_param(param, safe_get_full_fp32_param(param) * 0.5)
        safe_set_full_grad(param, safe_get_full_grad(param) + 0.01)
        safe_set_full_optimizer_state(param, safe_get_full_optimizer_state(param, "exp_avg") * 2, "exp_avg")


def _set_local(trial: Trial, engine: Any) -> None:
    for _, param in _trained(engine):
        safe_set_local_fp32_param(param, safe_get_local_fp32_param(param) * 0.5)
        safe_set_local_grad(param, safe_get_local_grad(param) + 0.01)
        safe_set_local_optimizer_state(param, safe_get_local_optimizer_state(param, "exp_avg") * 2, "exp_avg")


def _set_vectorized(trial: Trial, engine: Any) -> None:
    safe_update_full_grad_vectorized([param for _, param in _trained(engine)], lambda full, _: full * 0.25 + 0.01)


def _reach_in(trial: Trial, change: Any, config: Config, model: nn.Module | None = None) -> None:
    engine = trial.initialize(model or Stack(), config)
    trial.step(engine)  # states exist after the first step
    for _ in range(2):
        engine.backward(trial.loss(engine))
        _see_all(trial, engine)
        change(trial, engine)
        _see_all(trial, engine)
        engine.step()
        trial.record_norm(engine)
    trial.step(engine)
    trial.record_weights(engine)


@habit("safe_get_* and safe_set_* of full tensors", short=1)
def set_full(trial: Trial) -> None:
    _reach_in(trial, _set_full, trial.config())


@habit("safe_get_* and safe_set_* of full tensors, fp32")
def set_full_fp32(trial: Trial) -> None:
    _reach_in(trial, _set_full, trial.config(**FP32))


@habit("safe_get_* and safe_set_* of local tensors")
def set_local(trial: Trial) -> None:
    _reach_in(trial, _set_local, trial.config(gradient_clipping=1.0))


@habit("safe_update_full_grad_vectorized")
def set_vectorized(trial: Trial) -> None:
    _reach_in(trial, _set_vectorized, trial.config())


@habit("get_fp32_grad_partitions() before a step")
def all_gradients(trial: Trial) -> None:
    engine = trial.initialize(Stack(), trial.config(gradient_clipping=0.0))
    for _ in range(3):
        engine.backward(trial.loss(engine))
        for group, gradients in engine.optimizer.get_fp32_grad_partitions().items():
            for index, gradient in gradients.items():
                trial.record(group, index, digest(gradient))
        engine.step()
    trial.record_weights(engine)


@habit("safe_set_full_grad, parameters only on NVMe")
def set_parameters_only(trial: Trial) -> None:
    engine = trial.initialize(Stack(), trial.config(**NO_OPTIMIZER))
    for _ in range(3):
        engine.backward(trial.loss(engine))
        for _, param in _trained(engine):
            safe_set_full_grad(param, safe_get_full_grad(param) * 0.5)
        engine.step()
        trial.record_norm(engine)
    trial.record_weights(engine)


@habit("safe_set_full_grad, then a skipped step")
def set_then_skipped(trial: Trial) -> None:
    config = trial.config(bf16={"enabled": True, "check_grad_overflow": True})
    engine = trial.initialize(Stack(), config)
    trial.step(engine)
    engine.backward(trial.loss(engine) * float("inf"))
    for _, param in _trained(engine):
        safe_set_full_grad(param, torch.full(param.ds_shape, 0.125, device=trial.device))
    engine.step()
    trial.record(engine.skipped_steps)
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("gradients are read behind step(), as with accelerate, whose backward() steps")
def read_behind_step(trial: Trial) -> None:
    engine = trial.initialize(Stack(), trial.config(gradient_clipping=0.05, gradient_accumulation_steps=2))
    for micro_step in range(8):
        engine.backward(trial.loss(engine))
        if micro_step == 5:
            for name, param in _trained(engine):
                if name.startswith("layers.1"):
                    safe_set_full_grad(param, torch.full(param.ds_shape, 0.125, device=trial.device))
        at_boundary = engine.is_gradient_accumulation_boundary()
        engine.step()
        if at_boundary:
            for name, param in _trained(engine):
                trial.record("gradient", name, digest(safe_get_full_grad(param)))
            partitions = engine.optimizer.get_fp32_grad_partitions()
            trial.record([digest(gradient) for group in partitions.values() for gradient in group.values()])
    trial.record_weights(engine)


@habit("gradients are set behind step(), each when it has been read; the next step comes without a backward()")
def set_behind_step(trial: Trial) -> None:
    _set_between(trial, lambda engine: None)


@habit("gradients are set behind zero_grad(), each when it has been read; the next step comes without a backward()")
def set_behind_zero_grad(trial: Trial) -> None:
    def zero_grad(engine: Any) -> None:
        engine.backward(trial.loss(engine))
        engine.optimizer.zero_grad()

    _set_between(trial, zero_grad)


def _set_between(trial: Trial, before: Any) -> None:
    for changes in ({}, {"zero_optimization__sub_group_size": 1_000_000_000, "penstock__ram_bytes": "1GiB"}):
        engine = trial.initialize(Stack(), trial.config(gradient_clipping=0.05, **changes))
        for is_last in (False, False, True):
            trial.steps(engine, 1)
            before(engine)
            for name, param in _trained(engine):
                gradient = safe_get_full_grad(param)
                trial.record("gradient", name, digest(gradient))
                safe_set_full_grad(param, gradient * 0.5 + 0.001)
            _see_all(trial, engine)
            if is_last:
                engine.step()
                trial.record_norm(engine)
        trial.steps(engine, 2)
        trial.record_weights(engine)


@habit("safe_set_full_grad with `managed_gradient_accumulation` false")
def set_unmanaged(trial: Trial) -> None:
    engine = trial.initialize(Stack(), trial.config(managed_gradient_accumulation=False, gradient_clipping=0.5))
    for step in range(4):
        for _ in range(2):
            engine.backward(trial.loss(engine))
            if step % 2 == 1:
                for name, param in _trained(engine):
                    if name.startswith("layers.1"):
                        safe_set_full_grad(param, torch.full(param.ds_shape, 0.125, device=trial.device))
        engine.step()
        trial.record_norm(engine)
    trial.record_weights(engine)


@habit("safe_set_full_grad of parts without a gradient", reference=TIMES_0)
def set_missing(trial: Trial) -> None:
    engine = trial.initialize(Sparse(trial))
    for _ in range(4):
        engine.backward(trial.loss(engine))
        for name, param in _trained(engine):
            if name.startswith("experts.1"):
                safe_set_full_grad(param, torch.full(param.ds_shape, 0.125, device=trial.device))
        engine.step()
    trial.record_weights(engine)


class Idle(Stack):
    """A part that never runs."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(1, 64)
        self.idle = Layer(64)
        self._trial = trial

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = super().features(x)
        return x + self._trial.left_out(lambda: self.idle(x))


@habit("no gradient for 60 steps", ranks=(1,), reference=TIMES_0)
def idle(trial: Trial) -> None:
    engine = trial.initialize(Idle(trial))
    trial.steps(engine, 60)
    trial.record_weights(engine)
