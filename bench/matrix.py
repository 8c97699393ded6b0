"""Any numbers train: what users write for buffer_count, buffer_size and stage3_prefetch_bucket_size, all of it.

    .venv/bin/python bench/matrix.py [finetune|grpo] [--steps N]

Full fine-tuning of the 4-layer model with all 18 combinations, GRPO of the 28-layer one with four corners; nothing
kept in RAM, 64 MiB pinned. Each must equal `device: cpu` to the last digit. Writes bench/out/matrix-NAME.json; exit
status 1 if any does not train or differs.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from compare import FINETUNE_PARAMETERS
from leg import Leg, Result
from main_job import OUT, make_model
from run_port import clean_up_when_ended
from user_config import DATA, on_cpu, on_drive

COUNTS, SIZES, BUCKETS = (1, 5, 200), (100_000, 4_194_304, 200_000_000), (0, 50_000_000)
PINNED_MAX = 64 << 20
BLOCK = {"ram_bytes": 0, "max_pinned_bytes": PINNED_MAX}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Example: matrix.py finetune --steps 5"
    )
    parser.add_argument("job", nargs="?", choices=("finetune", "grpo"), default="finetune")
    parser.add_argument("--steps", type=int, default=5, help="steps a combination (default 5)")
    arguments = parser.parse_args()
    clean_up_when_ended()
    OUT.mkdir(exist_ok=True)
    swap = Path(os.environ.get("PENSTOCK_TMP", OUT / "swap"))
    finetuning = arguments.job == "finetune"
    stock = on_drive("full-finetune.json" if finetuning else "seed-003.json", swap)
    config = {**stock, "penstock": BLOCK}
    script = DATA / ("full_finetune.py" if finetuning else "grpo_lora.py")
    called = [str(make_model(4 if finetuning else 28)), "CONFIG", str(arguments.steps)]
    reference = Leg("device cpu", script, called, on_cpu(stock), penstock=False).run(OUT / "matrix")
    if reference.returncode != 0:
        print(f"device cpu ended with status {reference.returncode}: {reference.log}", file=sys.stderr)
        return 1
    combinations = (
        list(itertools.product(COUNTS, SIZES, BUCKETS))
        if finetuning
        else [
            (COUNTS[0], SIZES[0], BUCKETS[0]),
            (COUNTS[0], SIZES[-1], BUCKETS[-1]),
            (COUNTS[-1], SIZES[0], BUCKETS[-1]),
            (COUNTS[-1], SIZES[-1], BUCKETS[0]),
        ]
    )
    rows = []
    for number, (count, size, bucket) in enumerate(combinations, 1):
        numbered = _with_numbers(config, count, size, bucket)
        result = Leg(f"{count} x {size} bucket {bucket}", script, called, numbered).run(OUT / "matrix")
        rows.append(_row(result, reference, (count, size, bucket), finetuning))
        print(f"{number}/{len(combinations)}  {rows[-1]}", flush=True)
    (OUT / f"matrix-{arguments.job}.json").write_text(json.dumps(rows, indent=1))
    print(_table(rows))
    return 0 if all(row["equal"] and row["within_pinned"] for row in rows) else 1


def _with_numbers(config: dict[str, Any], count: int, size: int, bucket: int) -> dict[str, Any]:
    config = copy.deepcopy(config)
    zero = config["zero_optimization"]
    zero["offload_param"].update(buffer_count=count, buffer_size=size)
    zero["stage3_prefetch_bucket_size"] = bucket
    return config


def _row(result: Result, reference: Result, numbers: tuple[int, int, int], finetuning: bool) -> dict[str, Any]:
    # The order of use is learnt in the first two steps: what they read in vain is left out.
    steps = result.steps[2:] or result.steps
    row: dict[str, Any] = {
        **dict(zip(("buffer_count", "buffer_size", "bucket"), numbers, strict=True)),
        "equal": result.returncode == 0 and result.values == reference.values,
        "read_gb": statistics.mean(step.read_gb for step in steps) if steps else None,
        "written_gb": statistics.mean(step.written_gb for step in steps) if steps else None,
        "peak_gb": result.peak_gb,
        "pinned_mib": result.pinned_max / (1 << 20),
        "within_pinned": result.pinned_max <= PINNED_MAX,
    }
    if finetuning and steps:
        row["read_bytes_a_parameter"] = row["read_gb"] * 1e9 / FINETUNE_PARAMETERS
        row["written_bytes_a_parameter"] = row["written_gb"] * 1e9 / FINETUNE_PARAMETERS
    return row


def _table(rows: list[dict[str, Any]]) -> str:
    keys = list(rows[0])
    lines = ["| " + " | ".join(keys) + " |", "| " + " | ".join("---" for _ in keys) + " |"]
    for row in rows:
        cells = [f"{row.get(key):.2f}" if isinstance(row.get(key), float) else str(row.get(key)) for key in keys]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
