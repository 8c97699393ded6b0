"""A model of blocks as a random training draws them: odd shapes, parts that are shared, frozen, left out."""

from __future__ import annotations

from typing import Any

import torch
from habit_models import loss_of
from torch import nn
from torch.utils.checkpoint import checkpoint
from trial import Trial


class Dense(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.down(torch.tanh(self.up(x))))


class Vector(nn.Module):
    """A parameter of any shape, of which every element counts."""

    def __init__(self, shape: list[int]) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.randn(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.values.flatten()
        return x + (flat * torch.linspace(-1, 1, flat.numel(), dtype=flat.dtype)).sum() * 0.125


class Table(nn.Module):
    """An embedding of what the numbers are; tied to a head where that is asked for."""

    def __init__(self, width: int, words: int, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.head = nn.Linear(width, words, bias=False) if tied else None
        if self.head is not None:
            self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = self.embedding.num_embeddings
        tokens = (torch.nan_to_num(x.detach().float()[..., 0]).abs() * 100).clamp(max=1e6).long() % words
        x = x + self.embedding(tokens)
        return x if self.head is None else x + self.head(x).float().tanh().mean(-1, keepdim=True).to(x.dtype)


class Shared(nn.Module):
    """Two modules with one weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(width, width), nn.Linear(width, width)
        self.other.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.other(torch.tanh(self.one(x))))


class Twice(nn.Module):
    """A module that is called twice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.linear(torch.tanh(self.linear(x))))


def block(width: int, kind: str, argument: Any) -> nn.Module:
    kinds = {
        "dense": lambda: Dense(width, argument),
        "vector": lambda: Vector(argument),
        "table": lambda: Table(width, *argument),
        "norm": lambda: nn.LayerNorm(width),
        "shared": lambda: Shared(width),
        "twice": lambda: Twice(width),
    }
    made: nn.Module = kinds[kind]()
    return made


class RandomModel(nn.Module):
    """blocks: of each its kind, an argument, and how it is used: "", "frozen", "no_grad", "checkpointed", "reentrant",
    or "branch:N:M", in each Nth micro-step from the Mth on. The caller sets `call` before each forward.
    """

    def __init__(self, trial: Trial, width: int, blocks: list[tuple[str, Any, str]], dtype: torch.dtype) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(block(width, kind, argument) for kind, argument, _ in blocks)
        self.uses = [use for _, _, use in blocks]
        for made, use in zip(self.blocks, self.uses, strict=True):
            if use == "frozen":
                made.requires_grad_(False)
        self.dtype = dtype
        self.call = 0
        self.fails_at = -1  # the block behind which the forward fails
        self._trial = trial

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.dtype)
        for number, (part, use) in enumerate(zip(self.blocks, self.uses, strict=True)):
            x = self._used(part, use, x)
            if number == self.fails_at:
                raise ValueError("in the middle of a forward")
        return loss_of(x)

    def _used(self, part: nn.Module, use: str, x: torch.Tensor) -> torch.Tensor:
        if use == "no_grad":
            with torch.no_grad():
                missing = part(x) - x
            return x + missing + self._trial.left_out(lambda: part(x))
        if use in ("checkpointed", "reentrant") and torch.is_grad_enabled():
            return checkpoint(part, x, use_reentrant=use == "reentrant")
        if use.startswith("branch"):
            _, period, phase = use.split(":")
            runs = self.call % int(period) == int(phase)
            return part(x) if runs else x + self._trial.left_out(lambda: part(x))
        return part(x)
