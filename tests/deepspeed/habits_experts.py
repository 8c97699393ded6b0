"""Habits of mixtures of experts: each rank has some of them whole (DeepSpeed's AutoEP)."""

from __future__ import annotations

import torch
from habit import habit
from habit_models import loss_of, train_and_evaluate
from torch import nn
from trial import WIDTH, Trial

_EXPERTS = 4


class Mixture(nn.Module):
    """Names and shapes that AutoEP knows. It takes them over: this module never runs."""

    def __init__(self, inner: int = 512) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, _EXPERTS, bias=False)
        self.experts = nn.Module()
        self.experts.gate_up_proj = nn.Parameter(torch.randn(_EXPERTS, 2 * inner, WIDTH) / WIDTH**0.5)
        self.experts.down_proj = nn.Parameter(torch.randn(_EXPERTS, WIDTH, inner) / inner**0.5)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = Mixture()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mlp(self.norm(x))
        return x + (y[0] if isinstance(y, tuple) else y)


class Mixtures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x[None].to(self.head.weight.dtype)
        for layer in self.model.layers:
            x = layer(x)
        return loss_of(self.head(x))


@habit("experts divided among ranks (AutoEP), accumulation, clipping")
def divided_experts(trial: Trial) -> None:
    experts = {"enabled": True, "autoep_size": trial.ranks, "preset_model": "mixtral", "top_k": 2}
    train_and_evaluate(trial, Mixtures(), expert_parallel={**experts, "use_grouped_mm": False})
