"""The plan against the run: what `penstock plan` says before training, beside what training did.

    .venv/bin/python bench/plan_against_run.py [--steps N]

Full fine-tuning and GRPO with LoRA, each with nothing in RAM and with the default budgets, and two models more.
Bytes read a step are the median and bytes written the mean of the kernel's counts from the third step on, since
contents are written behind into the next step; the peak is VmHWM. Prints a table for
docs/BENCHMARKS.md and writes bench/out/plan-against-run.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from lora_options import lora_options
from markdown import table
from run_port import clean_up_when_ended
from seeded_model import SHAPES, qwen3, seeded_model
from training_run import FINETUNE, GRPO, Result, TrainingRun
from user_config import OUT, on_drive, plan_command

NOTHING_IN_RAM = {"ram_bytes": 0, "max_pinned_bytes": "64MiB"}


Case = tuple[TrainingRun, list[str]]  # a run, and what `penstock plan` is asked beside


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="Example: plan_against_run.py")
    parser.add_argument("--steps", type=int, default=10, help="optimizer steps a run (default 10)")
    steps = parser.parse_args().steps
    clean_up_when_ended()
    rows = []
    for training, options in cases(steps):
        planned = plan(training, options)
        rows.append(row(planned, training.run_well(OUT / "plan-against-run")))
        print(rows[-1], flush=True)
    (OUT / "plan-against-run.json").write_text(json.dumps(rows, indent=1))
    keys = [key for key in rows[0] if key != "run"]
    cells = [[one["run"], *(f"{one[key][0] / 1e9:.3f} / {one[key][1] / 1e9:.3f}" for key in keys)] for one in rows]
    print(table(["run", *(f"{key}, GB" for key in keys)], cells))
    return 0


def cases(steps: int) -> list[Case]:
    finetune, seed = on_drive("full-finetune.json"), on_drive("seed-003.json")
    untied = seeded_model(SHAPES / "Llama-untied", OUT / "llama-untied")
    from_drive = {"penstock": NOTHING_IN_RAM}

    def full(name: str, model: Path, block: dict[str, Any]) -> Case:
        return TrainingRun(name, FINETUNE, model, steps, {**finetune, **block}), ["--trainable", "all"]

    def grpo(name: str, block: dict[str, Any]) -> Case:
        return TrainingRun(name, GRPO, qwen3(), steps, {**seed, **block}), lora_options()

    return [
        full("4 layers, nothing in RAM", qwen3(4), from_drive),
        full("4 layers, default", qwen3(4), {}),
        grpo("GRPO, nothing in RAM", from_drive),
        grpo("GRPO, default", {}),
        full("12 layers, nothing in RAM", qwen3(12), from_drive),
        full("untied Llama, 400 MB in RAM", untied, {"penstock": {"ram_bytes": "400MB"}}),
    ]


def plan(training: TrainingRun, options: list[str]) -> dict[str, Any]:
    command = plan_command(training.model, training.config, OUT / "plan-against-run.config.json")
    done = subprocess.run(
        [*command, "--json", "--verbose", *options],
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
        stdout=subprocess.PIPE,
        check=True,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def row(planned: dict[str, Any], result: Result) -> dict[str, Any]:
    steps = result.steps[2:]
    ran = result.stats["plan"]
    return {
        "run": result.name,
        "pinned": (planned["pinned_bytes"], ran["pinned_bytes"]),
        "resident": (planned["ram_bytes"], ran["ram_bytes"]),
        "read": (planned["per_step"]["read_bytes"], 1e9 * statistics.median(step.read_gb for step in steps)),
        "written": (planned["per_step"]["write_bytes"], 1e9 * statistics.mean(step.written_gb for step in steps)),
        "peak": (planned["process"]["peak_bytes"], 1e9 * result.peak_gb),
    }


if __name__ == "__main__":
    sys.exit(main())
