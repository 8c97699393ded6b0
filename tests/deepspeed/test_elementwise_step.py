"""The step over chunks of optimizers that penstock has no kernels for: digit for digit, saved, resumed and stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checkpoint_player import Played
from checkpoints import differences
from chunked_training import train

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "torch AdamW": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01, "torch_adam": True}},
    "AMSGrad": {"type": "AdamW", "params": {"lr": 1e-3, "amsgrad": True, "torch_adam": True}},
    "SGD": {"type": "SGD", "params": {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.01}},
    "SGD without states": {"type": "SGD", "params": {"lr": 1e-2}},
    "RMSprop": {"type": "RMSprop", "params": {"lr": 1e-4, "momentum": 0.9, "centered": True}},
    "NAdam": {"type": "NAdam", "params": {"lr": 1e-3}},  # it keeps a product of betas besides
    "Lion": {"type": "Lion", "params": {"lr": 1e-4, "weight_decay": 0.01}},
    "CPU Adagrad": {"type": "Adagrad", "params": {"lr": 1e-3, "weight_decay": 0.01}},
}


def run(device: str, directory: Path, optimizer: str, *steps: str, ranks: int = 1) -> Played:
    changes = {"optimizer": OPTIMIZERS[optimizer], "zero_allow_untested_optimizer": True, "gradient_clipping": 0.5}
    played = train(device, directory, *steps, ranks=ranks, is_uneven=True, changes=changes)
    assert "a whole sub-group at a time" not in played.output
    return played


@pytest.mark.parametrize(
    "optimizer", [pytest.param(name, marks=() if name == "torch AdamW" else pytest.mark.deep) for name in OPTIMIZERS]
)
@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_equal_and_resumed(compiled: None, tmp_path: Path, optimizer: str, ranks: int) -> None:
    saved = {
        device: run(device, tmp_path / device, optimizer, "train:2", "save", "train:3", "see", ranks=ranks)
        for device in ("nvme", "cpu")
    }
    tags = (tmp_path / device / "global_step2" for device in ("nvme", "cpu"))
    assert differences(*tags, has_padding=ranks == 2) == []
    seen = {device: played.seen("train:3") + played.seen("see") for device, played in saved.items()}
    assert seen["nvme"] == seen["cpu"]
    for directory in ("nvme", "cpu"):
        resumed = run("nvme", tmp_path / directory, optimizer, "load", "train:3", "see", ranks=ranks)
        assert not resumed.failures
        assert resumed.seen("train:3") + resumed.seen("see") == seen["nvme"]


@pytest.mark.deep
def test_a_step_that_stops(compiled: None, tmp_path: Path) -> None:
    """Within a sub-group of more than a hundred chunks; it is not carried out twice."""
    whole = run("nvme", tmp_path, "torch AdamW", "train:2", "save", "train:3", "see")
    steps = ("train:2", "break:0", "train:1", "break:130", "try", "load:global_step2", "train:3", "see")
    stopped = run("nvme", tmp_path, "torch AdamW", *steps)
    assert len(stopped.failures) == 3, stopped.output
    assert all("the step stopped at parameter 'layers." in line for line in stopped.failures[1:2])
    assert stopped.failures[2].endswith("load a checkpoint first")
    assert stopped.seen("train:3") + stopped.seen("see") == whole.seen("train:3") + whole.seen("see")
