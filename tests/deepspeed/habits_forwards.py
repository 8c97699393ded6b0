"""Habits of forwards: those that write a few elements of many through `.data`, which torch does not count, and those
that use weights of other modules.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from habit import habit
from habit_models import Stack, loss_of
from torch import nn
from torch.nn import functional
from trial import WIDTH, Trial

_ELEMENTS = slice(100, 132)  # not among the first 64 bytes of 16384


def _mark(weight: torch.Tensor, factor: float = -1.5) -> None:
    weight.data.view(-1)[_ELEMENTS] *= factor


class Codebook(nn.Module):
    """Renews a few elements in each forward."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _mark(self.codes)
        return x + torch.tanh(x @ self.codes)


class Quantizer(Stack):
    def __init__(self, is_trained: bool) -> None:
        super().__init__()
        self.codebook = Codebook().requires_grad_(is_trained)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return loss_of(self.codebook(self.features(x)))


class Reused(Stack):
    """Uses a layer's weight beside the layer, and renews a few of its elements there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        weight = self.layers[0].linear.weight
        _mark(weight)
        return loss_of(functional.linear(x, weight))


def _trained(trial: Trial, model: nn.Module, **changes: Any) -> Any:
    engine = trial.initialize(model, trial.config(**changes))
    for _ in range(3):
        trial.step(engine)
        with torch.no_grad():
            trial.record("evaluation", repr(engine(trial.batch()).item()))
    trial.record_weights(engine)
    return engine


@habit("a frozen codebook that renews a few elements in its forward", ranks=(1,))
def frozen_codebook(trial: Trial) -> None:
    _trained(trial, Quantizer(is_trained=False))


@habit("a trained codebook that renews a few elements in its forward", ranks=(1,))
def trained_codebook(trial: Trial) -> None:
    _trained(trial, Quantizer(is_trained=True), gradient_accumulation_steps=2)


@habit("a weight of another module, a few elements of which a forward renews", ranks=(1,))
def marked_elsewhere(trial: Trial) -> None:
    _trained(trial, Reused(), gradient_accumulation_steps=2)


@habit("hooks of a script that renew a few elements of a weight: of a module, and of a gradient", ranks=(1,))
def marked_in_hooks(trial: Trial) -> None:
    model = Stack()
    model.layers[0].linear.register_forward_hook(lambda module, *_: _mark(module.weight))
    engine = trial.initialize(model, trial.config(gradient_accumulation_steps=2))
    model.layers[1].linear.weight.register_post_accumulate_grad_hook(lambda param: _mark(param, 0.5))
    for _ in range(2):
        trial.step(engine)
        with torch.no_grad():
            trial.record("evaluation", repr(engine(trial.batch()).item()))
    trial.record_weights(engine)


@habit("a gradient's hook that renews a few elements of a weight, registered before deepspeed.initialize", ranks=(1,))
def marked_in_hook_of_before(trial: Trial) -> None:
    model = Stack()
    for layer in model.layers:
        layer.linear.weight.register_post_accumulate_grad_hook(lambda param: _mark(param, 0.5))
    _trained(trial, model, gradient_accumulation_steps=2)


@habit("a hook of all modules that renews a few elements of each linear layer's weight", ranks=(1,))
def marked_in_global_hook(trial: Trial) -> None:
    def mark(module: nn.Module, *_: Any) -> None:
        if type(module) is nn.Linear:
            _mark(module.weight)

    nn.modules.module.register_module_forward_hook(mark)
    _trained(trial, Stack())


@habit("nn.Linear.forward replaced by one that renews a few elements of its weight", ranks=(1,))
def marked_in_replaced_forward(trial: Trial) -> None:
    forward = nn.Linear.forward

    def marking(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        _mark(self.weight)
        return forward(self, x)

    nn.Linear.forward = marking  # type: ignore[method-assign]
    _trained(trial, Stack())


class Encoders(nn.Module):
    """In evaluation its layers use the weights of modules that do not run, and DeepSpeed records that as a new use. The
    first may be left out.
    """

    def __init__(self, has_norm: bool) -> None:
        super().__init__()
        layer = functools.partial(nn.TransformerEncoderLayer, 64, 4, 96, dropout=0.0, batch_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(2))
        self.norm = nn.LayerNorm(64) if has_norm else nn.Identity()

    def forward(self, x: torch.Tensor, first: int = 0) -> torch.Tensor:
        x = x[None, :, :64]
        for layer in self.layers[first:]:
            x = layer(x)
        return loss_of(self.norm(x))


def _evaluated(trial: Trial, model: nn.Module, rounds: int, firsts: tuple[int, ...]) -> Any:
    """firsts: of each evaluation of a round."""
    trial.swap_from(1)  # its biases are persistent, and swapped
    autocast = {"enabled": True, "dtype": "bfloat16"}
    sizes = {"aio": {"block_size": 1}, "zero_optimization__stage3_param_persistence_threshold": 100}
    engine = trial.initialize(model, trial.config(bf16=None, torch_autocast=autocast, **sizes))
    for _ in range(rounds):
        trial.steps(engine, 2)
        engine.eval()
        for first in firsts:
            with torch.no_grad():
                trial.loss(engine, trial.batch(), first)
        engine.train()
    return engine


@habit("`torch_autocast` with bfloat16, evaluations of an nn.TransformerEncoderLayer")
def evaluated_encoder(trial: Trial) -> None:
    engine = _evaluated(trial, Encoders(has_norm=False), rounds=3, firsts=(0,))
    trial.record_weights(engine)


@habit("`torch_autocast` with bfloat16, evaluations of nn.TransformerEncoderLayers, some without the first")
def evaluated_in_part(trial: Trial) -> None:
    engine = _evaluated(trial, Encoders(has_norm=True), rounds=2, firsts=(0, 1, 0))
    trial.steps(engine, 1)
    trial.record_weights(engine)
