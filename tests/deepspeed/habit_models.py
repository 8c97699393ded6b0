"""Models of the habits: matrices above the swap threshold, biases and a norm below it; and a training of any."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.checkpoint
from torch import nn
from trial import WIDTH, Trial

MUON = {"type": "Muon", "params": {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.01}}


def mark_for_muon(model: nn.Module) -> nn.Module:
    """Muon asks each parameter; the model itself."""
    for param in model.parameters():
        param.use_muon = param.dim() > 1
    return model


class Layer(nn.Module):
    """A matrix with a bias, and what makes it not linear."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.linear(x))


class Stack(nn.Module):
    """Layers behind one another, a norm, and the mean square as loss."""

    def __init__(self, depth: int = 3, width: int = WIDTH) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.width = width

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = x[..., : self.width].to(self.norm.weight.dtype)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return loss_of(self.features(x))


class Checkpointed(Stack):
    """Each layer's activations are computed again in backward, which torch ends with an exception of its own."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.norm.weight.dtype).requires_grad_(True)
        for layer in self.layers:
            x = self.recomputed(layer, x)
        return self.norm(x)

    def recomputed(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)


class Uneven(Stack):
    """A matrix with an odd number of elements, which several ranks divide with padding; half of it is swapped."""

    def __init__(self, depth: int = 3, width: int = WIDTH) -> None:
        super().__init__(depth, width)
        self.mix = nn.Linear(width - 1, width + 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return loss_of(self.mix(self.features(x)[..., :-1]))


class Sparse(Stack):
    """Four layers, a branch that runs in every other micro-step, four experts of which one runs a micro-step."""

    def __init__(self, trial: Trial, width: int = WIDTH) -> None:
        super().__init__(4, width)
        self.branch = Layer(width)
        self.experts = nn.ModuleList(Layer(width) for _ in range(4))
        self._trial = trial
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.features(x)
        call, self.calls = self.calls, self.calls + 1
        x = x + self._part(self.branch, x, call % 2 == 0)
        for number, expert in enumerate(self.experts):
            x = x + self._part(expert, x, call % 4 == number)
        return loss_of(x)

    def _part(self, layer: nn.Module, x: torch.Tensor, used: bool) -> torch.Tensor | float:
        return layer(x) if used else self._trial.left_out(lambda: layer(x))


class Tied(nn.Module):
    """An embedding whose matrix is the head's too, as language models have it."""

    def __init__(self, words: int = 2 * WIDTH, width: int = WIDTH) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return nn.functional.cross_entropy(self.head(x).float().flatten(0, 1), tokens.flatten())


def loss_of(x: torch.Tensor) -> torch.Tensor:
    """Larger for outputs that point away from a fixed direction, so that every weight has a gradient."""
    return (x.float() - torch.linspace(-1, 1, x.shape[-1], device=x.device)).pow(2).mean()


def train_and_evaluate(trial: Trial, model: nn.Module, **changes: Any) -> None:
    """Accumulation and clipping, an evaluation now and then."""
    config = trial.config(gradient_accumulation_steps=2, gradient_clipping=1.0, **changes)
    engine = trial.initialize(model, config)
    for _ in range(2):
        trial.steps(engine, 3)
        engine.eval()
        with torch.no_grad():
            trial.loss(engine)
        engine.train()
    trial.record_weights(engine)
