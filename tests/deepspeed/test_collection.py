"""Python's collector finds parameters that died while a model was built as its engine is made: no step waits for it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import deepspeed
import torch
from conftest import free_port
from habit_process import run
from torch import nn
from trial import WIDTH, Trial


class Tied(nn.Module):
    """A matrix that is used twice. Under zero.Init, two are partitioned before they are one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x.to(self.first.weight.dtype))).float().square().mean()


def tied_training(trial: Trial) -> None:
    """The collector runs where it is called only, and each call is seen."""

    def see(phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            trial.record("collection")

    gc.collect()
    gc.disable()
    config = trial.config()
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = Tied()
    assert _partitions(model) == 2
    gc.callbacks.append(see)
    engine = trial.initialize(model, config)
    assert _partitions(model) == 1
    for step in range(3):
        trial.record("step", step)
        trial.step(engine)
    gc.callbacks.remove(see)


def _partitions(model: Tied) -> int:
    """That the engine has of the model, dead ones among them."""
    swapper: Any = model.first.weight.nvme_swapper  # type: ignore[union-attr]
    return len(swapper._engine.tensors(swapper._space))


def test_no_step_waits_for_the_collector(tmp_path: Path) -> None:
    outcome = run(tied_training, tmp_path / "run", 1, False, free_port())
    assert not outcome.errors, outcome.log
    first_step = outcome.seen[0].index("step 0")
    assert "collection" in outcome.seen[0][:first_step]
    assert "collection" not in outcome.seen[0][first_step:]
