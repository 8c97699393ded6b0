"""The inventories of bench/data/inventories, made from the configurations of bench/data/models.

    .venv/bin/python bench/make_inventories.py [-o DIR] [MODEL…]

Each is what `python -m penstock.inventory` lists of the model that transformers builds. Of models that transformers
keeps with the experts of a layer in one tensor there is a second one, `…-per-expert.json`, in which every expert has
tensors of its own, as their checkpoints do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "bench" / "data" / "models"
# As a file, so that nothing needs to be compiled.
LISTING = ROOT / "bindings" / "python" / "penstock" / "inventory.py"

Tensor = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/make_inventories.py -o /tmp"
    )
    known = sorted(path.name for path in MODELS.iterdir())
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(known)} (default: all)")
    place = "bench/out/inventories"
    parser.add_argument("-o", "--output", type=Path, default=ROOT / place, help=f"directory (default: {place})")
    options = parser.parse_args()
    if unknown := [name for name in options.models if name not in known]:
        parser.error(f"there is no configuration of {unknown[0]} in {MODELS}")
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.models or known:
        done = subprocess.run([sys.executable, LISTING, MODELS / name], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            return done.returncode
        fused = json.loads(done.stdout)
        write(options.output / f"{name.lower()}.json", fused)
        tensors = list(per_expert(fused["tensors"]))
        if tensors != fused["tensors"]:
            write(options.output / f"{name.lower()}-per-expert.json", {**fused, "tensors": tensors})
    return 0


def per_expert(tensors: list[Tensor]) -> Iterator[Tensor]:
    """The same tensors, fused experts as those that they were made of."""
    for at, tensor in enumerate(tensors):
        if tensor["name"].endswith(".experts.gate_up_proj"):
            yield from split_experts(tensor, tensors[at + 1])
        elif not tensor["name"].endswith(".experts.down_proj"):
            yield tensor


def split_experts(gate_up: Tensor, down: Tensor) -> Iterator[Tensor]:
    experts, both, hidden = gate_up["shape"]
    layer = gate_up["name"].removesuffix(".gate_up_proj")
    if down["name"] != f"{layer}.down_proj" or down["shape"] != [experts, hidden, both // 2]:
        raise SystemExit(f"make_inventories: {down['name']} does not belong to {gate_up['name']}")
    for expert in range(experts):
        for part, shape in (("gate", [both // 2, hidden]), ("up", [both // 2, hidden]), ("down", [hidden, both // 2])):
            yield {**gate_up, "name": f"{layer}.{expert}.{part}_proj.weight", "shape": shape}


def write(path: Path, inventory: dict[str, Any]) -> None:
    path.write_text(json.dumps(inventory, separators=(",", ":")), encoding="utf-8")
    print(f"{path}: {len(inventory['tensors'])} tensors")


if __name__ == "__main__":
    sys.exit(main())
