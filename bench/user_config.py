"""The users' DeepSpeed configurations of bench/data, on a drive of this machine or without one, and their plans."""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
OUT = Path(__file__).parent / "out"
SWAP = Path(os.environ.get("PENSTOCK_TMP", OUT / "swap"))
BINARY = os.environ.get("PENSTOCK_BINARY", str(Path(sys.executable).parent / "penstock"))
SECTIONS = ("offload_param", "offload_optimizer")


def on_drive(name: str, swap: Path = SWAP) -> dict[str, Any]:
    """The file `name` with nothing but its `nvme_path` replaced."""
    config: dict[str, Any] = json.loads((DATA / name).read_text())
    for section in SECTIONS:
        config["zero_optimization"][section]["nvme_path"] = str(swap)
    return config


def on_cpu(config: dict[str, Any], *sections: str) -> dict[str, Any]:
    """A copy in which these sections (none named: both) say `"device": "cpu"`."""
    config = copy.deepcopy(config)
    for section in sections or SECTIONS:
        config["zero_optimization"][section]["device"] = "cpu"
    return config


def plan_command(model: Path, config: dict[str, Any], file: Path) -> list[str]:
    """`penstock plan` of a model under a configuration, which is written to the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(config))
    return [BINARY, "plan", str(model), "--config", str(file)]
