"""Habits of optimizers: what makes which states, and when."""

from __future__ import annotations

import copy
import io
import types
from typing import Any

import torch
from habit import habit
from habit_models import MUON, Stack, mark_for_muon
from torch.amp import grad_scaler as grad_scaler_module
from trial import Trial, digest


def _engine_with(trial: Trial, kind: Any, **arguments: Any) -> Any:
    """An engine whose optimizer the script has made."""
    model = Stack()
    config = trial.config(optimizer=None, zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False)
    return trial.initialize(model, config, optimizer=kind(model.parameters(), **arguments))


def _torch_optimizer(trial: Trial, kind: Any, **arguments: Any) -> None:
    engine = _engine_with(trial, kind, **arguments)
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


def _bound_gradients(optimizer: Any, *_: Any) -> None:
    """Each gradient that the step is about to use, a sub-group's, is bounded."""
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad.mul_(1e-3 / (param.grad.norm() + 1e-3))


def _hooked(trial: Trial, kind: Any, **changes: Any) -> None:
    """A hook from the second step on, and another one for the third alone, which scales what was stepped."""
    model = Stack()
    optimizer = kind(model.parameters(), lr=1e-3)
    engine = trial.initialize(model, trial.config(optimizer=None, **changes), optimizer=optimizer)
    trial.step(engine)
    optimizer.register_step_pre_hook(_bound_gradients)
    trial.step(engine)

    def once(optimizer: Any, *_: Any) -> None:
        handle.remove()
        for param in (param for group in optimizer.param_groups for param in group["params"]):
            param.data.mul_(min(1.0, 10.0 / float(param.data.norm())))

    handle = optimizer.register_step_post_hook(once)
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("hooks of the step of DeepSpeed's CPU Adam")
def hooked_cpu_adam(trial: Trial) -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    _hooked(trial, DeepSpeedCPUAdam)


@habit("hooks of the step of torch AdamW, that come and go")
def hooked_torch_adamw(trial: Trial) -> None:
    _hooked(trial, torch.optim.AdamW, zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False)


@habit("a step of DeepSpeed's CPU Adam that the script wraps, below a scheduler of torch's")
def wrapped_step(trial: Trial) -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    model = Stack()
    optimizer = DeepSpeedCPUAdam(model.parameters(), lr=1e-3)
    original = optimizer.step

    def step(self: Any, *arguments: Any) -> Any:
        _bound_gradients(self)
        return original(*arguments)

    optimizer.step = types.MethodType(step, optimizer)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    engine = trial.initialize(model, trial.config(optimizer=None), optimizer=optimizer, lr_scheduler=scheduler)
    trial.steps(engine)
    trial.record_weights(engine)


def _wrapped_on_the_class(trial: Trial, kind: Any) -> None:
    """As a library does it, for all optimizers of that class."""
    original = kind.step

    def step(self: Any, *arguments: Any) -> Any:
        _bound_gradients(self)
        return original(self, *arguments)

    kind.step = step
    _torch_optimizer(trial, kind, lr=1e-3)


@habit("a step that the script wraps on the class, DeepSpeed's CPU Adam")
def wrapped_class_cpu_adam(trial: Trial) -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    _wrapped_on_the_class(trial, DeepSpeedCPUAdam)


@habit("a step that the script wraps on the class, torch AdamW")
def wrapped_class_torch_adamw(trial: Trial) -> None:
    _wrapped_on_the_class(trial, torch.optim.AdamW)


def _wait_for_scales() -> None:
    """torch's GradScaler copies its scale from a GPU to the gradients of stock's `device: cpu` without waiting for the
    copy: stock multiplies by what was there before, and its weights are NaN.
    """
    get = grad_scaler_module._MultiDeviceReplicator.get

    def waited_for(self: Any, device: torch.device) -> torch.Tensor:
        scale = get(self, device)
        torch.cuda.synchronize()
        return scale

    grad_scaler_module._MultiDeviceReplicator.get = waited_for  # type: ignore[method-assign]


@habit("`torch_autocast` with float16: torch's GradScaler")
def grad_scaler(trial: Trial) -> None:
    """It unscales gradients, and skips a step whose gradient is not finite."""
    if trial.reference and trial.device != "cpu":
        _wait_for_scales()
    autocast = {"enabled": True, "dtype": "float16"}
    engine = trial.initialize(Stack(), trial.config(bf16=None, torch_autocast=autocast, gradient_clipping=0.0))
    for step in range(4):
        engine.backward(trial.loss(engine) * (1e6 if step == 1 else 1.0))
        engine.step()
        trial.record_norm(engine)
        trial.record("scale", engine.optimizer.torch_autocast_gradscaler.get_scale())
    trial.record_weights(engine)


@habit("torch.set_default_dtype(torch.bfloat16), clipping")
def default_dtype(trial: Trial) -> None:
    torch.set_default_dtype(torch.bfloat16)
    engine = trial.initialize(Stack(), trial.config(gradient_clipping=0.3))
    trial.steps(engine)
    trial.record_weights(engine)


@habit("torch.set_default_dtype(torch.float64), fp32")
def default_dtype_double(trial: Trial) -> None:
    model = Stack()
    torch.set_default_dtype(torch.float64)
    engine = trial.initialize(model, trial.config(bf16=None))
    trial.steps(engine)
    trial.record_weights(engine)


def _on_another_device(trial: Trial, **changes: Any) -> None:
    """As scripts set "cuda". The tensors of "meta" have no numbers, so that none may be used."""
    engine = trial.initialize(Quadratic(), trial.config(gradient_clipping=0.3, **changes))
    batches = [trial.batch() for _ in range(3)]
    torch.set_default_device("meta")
    try:
        for batch in batches:
            trial.step(engine, batch)
    finally:
        torch.set_default_device(None)
    trial.record_weights(engine)


class Quadratic(Stack):
    """Makes no tensor in its forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.features(x).float() - 1).pow(2).mean()


@habit("torch.set_default_device()")
def default_device(trial: Trial) -> None:
    _on_another_device(trial)


@habit("torch.set_default_device(), torch AdamW", cpu_only="stock fails there with torch 2.11")
def default_device_torch(trial: Trial) -> None:
    _on_another_device(trial, optimizer={"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}})


@habit("Muon")
def muon(trial: Trial) -> None:
    config = trial.config(optimizer=MUON, zero_optimization__reduce_scatter=False)
    engine = trial.initialize(mark_for_muon(Stack()), config)
    trial.steps(engine)
    trial.record_weights(engine)


def _emptied(trial: Trial, kind: Any) -> None:
    """All its states are taken from it, later those of one sub-group: it makes them anew."""
    engine = _engine_with(trial, kind, lr=1e-3)
    trial.steps(engine, 3)
    states = engine.optimizer.optimizer.state  # another one than before where a checkpoint was loaded
    states.clear()
    trial.steps(engine, 2)
    states[next(iter(states))] = {}
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("optimizer.state.clear(), DeepSpeed's CPU Adam")
def emptied_cpu_adam(trial: Trial) -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    _emptied(trial, DeepSpeedCPUAdam)


@habit("optimizer.state.clear(), torch AdamW")
def emptied_torch_adamw(trial: Trial) -> None:
    _emptied(trial, torch.optim.AdamW)


def _in_place(trial: Trial, kind: Any, **arguments: Any) -> None:
    """Its states are looked at and changed between steps, in the ways that tensors have, and others are put there."""
    engine = _engine_with(trial, kind, lr=1e-3, **arguments)
    trial.steps(engine, 2)
    states = engine.optimizer.optimizer.state

    def all_states() -> list[torch.Tensor]:
        return [
            value for group in states.values() for value in group.values() if torch.is_tensor(value) and value.dim()
        ]

    def change(tensors: list[torch.Tensor]) -> None:
        for number, tensor in enumerate(tensors):
            match number % 5:
                case 0:
                    tensor.mul_(0.5)
                case 1:
                    tensor.data.mul_(0.25)
                case 2:
                    tensor[1:7] = 0
                case 3:
                    tensor.view(-1)[:5].zero_()
                case 4:
                    tensor.data = tensor * 0.75
        torch._foreach_mul_(tensors, 0.5)
        torch.mul(tensors[0], 0.5, out=tensors[0])
        tensors[-1].numpy()[:3] = 0

    for _ in range(2):
        change(all_states())
        for tensor in all_states():
            trial.record(tuple(tensor.shape), tensor.dtype, tensor.norm().item(), tensor.max(dim=0).values.item())
            trial.record(repr(tensor), tensor.tolist()[:3], digest(copy.deepcopy(tensor)))
        trial.steps(engine, 1)
    first = next(iter(states.values()))
    for name, value in first.items():
        if torch.is_tensor(value) and value.dim():
            first[name] = torch.zeros_like(value)
    kept = io.BytesIO()
    torch.save(dict(enumerate(states.values())), kept)
    trial.steps(engine, 1)
    kept.seek(0)
    for group, saved in zip(states.values(), torch.load(kept).values(), strict=True):
        for name, value in saved.items():
            group[name].copy_(value) if torch.is_tensor(value) else group.update({name: value})
    with torch.inference_mode():
        for tensor in all_states():
            tensor.add_(tensor, alpha=0.5)
    trial.steps(engine, 2)
    trial.record_weights(engine)


def _put_aside(trial: Trial, kind: Any, **arguments: Any) -> None:
    """Its states are put aside, it makes others, and the first ones come back."""
    engine = _engine_with(trial, kind, lr=1e-3, **arguments)
    trial.steps(engine, 2)
    states = engine.optimizer.optimizer.state
    aside = {master: dict(group) for master, group in states.items()}
    states.clear()
    trial.steps(engine, 2)
    for master, group in aside.items():
        states[master] = group
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("optimizer.state put aside and put back, DeepSpeed's CPU Adam")
def put_aside_cpu_adam(trial: Trial) -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    _put_aside(trial, DeepSpeedCPUAdam)


@habit("optimizer.state put aside and put back, torch SGD with momentum")
def put_aside_sgd(trial: Trial) -> None:
    _put_aside(trial, torch.optim.SGD, momentum=0.9)


@habit("a momentum set to None, torch SGD")
def momentum_none(trial: Trial) -> None:
    engine = _engine_with(trial, torch.optim.SGD, lr=1e-2, momentum=0.9)
    trial.steps(engine, 3)
    next(iter(engine.optimizer.optimizer.state.values()))["momentum_buffer"] = None
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("optimizer.state changed in place, DeepSpeed's CPU Adam")
def changed_cpu_adam(trial: Trial) -> None:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    _in_place(trial, DeepSpeedCPUAdam)


@habit("optimizer.state changed in place, torch AdamW")
def changed_torch_adamw(trial: Trial) -> None:
    _in_place(trial, torch.optim.AdamW)


@habit("optimizer.state changed in place, an optimizer that is stepped whole")
def changed_whole(trial: Trial) -> None:
    _in_place(trial, OwnMomentum)


class OwnMomentum(torch.optim.SGD):
    """What penstock does not know."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, lr=lr, momentum=0.9)


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


@habit("masters and gradients in bf16 with states in fp32, each parameter a sub-group")
def narrow_masters(trial: Trial) -> None:
    changes = {"bf16__bf16_master_weights_and_grads": True, "zero_optimization__sub_group_size": 1}
    engine = trial.initialize(Stack(), trial.config(**changes))
    trial.steps(engine)
    trial.record_weights(engine)
