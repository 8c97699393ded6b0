"""Checkpoints that runs train: seeded random weights in the shape of a config.json of bench/data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from user_config import DATA, OUT

SHAPES = DATA / "shapes"
# The proportions of Qwen3-0.6B: in bfloat16 an embedding of 16 MiB beside matrices of 0.25 to 2 MiB. Two layers of it
# train in seconds on one core.
SMALL = SHAPES / "Small"


def seeded_model(shape: Path, model: Path, **changes: int) -> Path:
    """The checkpoint `model`, made where it is not there yet. `changes`: numbers in place of the shape's."""
    if not model.exists():
        print(f"\n== making {model}", flush=True)
        partial = model.with_name(f"{model.name}.partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        command: list[str | Path] = [
            sys.executable,
            DATA / "make_model.py",
            shape,
            partial,
            *(f"{k}={v}" for k, v in changes.items()),
        ]
        environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise SystemExit(f"cannot make {model}: {done.stderr}")
        partial.rename(model)
    return model


def qwen3(layers: int = 28, out: Path = OUT) -> Path:
    """So many layers of Qwen3-0.6B."""
    return seeded_model(DATA / "models" / "Qwen3-0.6B", out / f"qwen3-{layers}-layers", num_hidden_layers=layers)
