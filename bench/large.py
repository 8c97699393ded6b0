"""Full fine-tuning of a model that this machine's memory cannot hold: what it needs and where, then some steps of it.

    .venv/bin/python bench/large.py [qwen3-1.7b|qwen2.5-3b] [--steps N] [--states 8bit] [--stock]

Prints the plan first, and ends there where memory or drive are too small. The weights are random; shapes
and bytes are the model's. With --stock DeepSpeed alone trains the same, with the buffers that `penstock plan
--emit-config` finds for it, and losses must be equal. Prints a table for docs/BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from markdown import table
from run_port import clean_up_when_ended
from seeded_model import SHAPES, seeded_model
from training_run import FINETUNE, TABLE_HEAD, TrainingRun, figures, table_row
from user_config import OUT, on_drive, plan_command

MODELS = {shape.name.lower(): shape for shape in (SHAPES / "Qwen3-1.7B", SHAPES / "Qwen2.5-3B")}
LISTING = Path(__file__).resolve().parents[1] / "bindings" / "python" / "penstock" / "inventory.py"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="example: bench/large.py qwen3-1.7b")
    parser.add_argument("model", nargs="?", default="qwen3-1.7b", choices=MODELS, help="shape (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="optimizer steps (default: %(default)s)")
    parser.add_argument("--sub-group-size", type=float, default=1e9, help="elements (default: DeepSpeed's 1e9)")
    parser.add_argument("--states", default="fp32", help="optimizer_states: fp32, bf16, 8bit, 4bit (default: fp32)")
    parser.add_argument("--stock", action="store_true", help="DeepSpeed alone as well")
    parser.add_argument("--plan", action="store_true", help="print what it needs, and end there")
    options = parser.parse_args()
    clean_up_when_ended()
    model = OUT / "large" / options.model
    config = configuration(options)
    inventory = list_tensors(MODELS[options.model], Path(f"{model}.inventory.json"))
    plan = [*plan_command(inventory, config, Path(f"{model}.ds_config.json")), "--trainable", "all"]
    status = subprocess.run(plan, check=False).returncode
    if status != 0 or options.plan:
        return status
    seeded_model(MODELS[options.model], model)
    runs = [TrainingRun("penstock", FINETUNE, model, options.steps, config)]
    if options.stock:
        emitted = subprocess.run([*plan, "--emit-config"], stdout=subprocess.PIPE, text=True, check=True).stdout
        stock = {key: value for key, value in json.loads(emitted).items() if key != "penstock"}
        runs.append(TrainingRun("stock", FINETUNE, model, options.steps, stock, penstock=False))
    results = [each.run_well(OUT / "large") for each in runs]
    warm_up = min(1, options.steps - 1)
    print(table(TABLE_HEAD, [table_row(each.name, figures([each], warm_up)) for each in results]))
    if options.states == "fp32" and len({str(result.values) for result in results}) > 1:
        print(f"losses differ: {[result.values for result in results]}", file=sys.stderr)
        return 1
    return 0


def configuration(options: argparse.Namespace) -> dict[str, Any]:
    config = on_drive("full-finetune.json")
    config["zero_optimization"]["sub_group_size"] = int(options.sub_group_size)
    config["penstock"] = {"ram_bytes": 0, "max_pinned_bytes": "64MiB", "optimizer_states": options.states}
    return config


def list_tensors(shape: Path, inventory: Path) -> Path:
    inventory.parent.mkdir(parents=True, exist_ok=True)
    listing = subprocess.run([sys.executable, LISTING, shape], stdout=subprocess.PIPE, text=True, check=True)
    inventory.write_text(listing.stdout)
    return inventory


if __name__ == "__main__":
    raise SystemExit(main())
