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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from lora_options import lora_options
from main_job import OUT, make_model
from run_port import clean_up_when_ended
from training_run import Result, TrainingRun
from user_config import DATA, on_drive, plan_command

NOTHING_IN_RAM = {"ram_bytes": 0, "max_pinned_bytes": "64MiB"}
UNTIED = """
import sys, torch
from transformers import AutoModelForCausalLM, LlamaConfig
torch.manual_seed(0)
config = LlamaConfig(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
                     num_attention_heads=16, tie_word_embeddings=False)
AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(sys.argv[1])
"""


@dataclass
class Case:
    name: str
    script: str
    model: Path
    config: dict[str, Any]
    options: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="Example: plan_against_run.py")
    parser.add_argument("--steps", type=int, default=10, help="optimizer steps a run (default 10)")
    steps = parser.parse_args().steps
    clean_up_when_ended()
    OUT.mkdir(exist_ok=True)
    rows = []
    for case in cases(Path(os.environ.get("PENSTOCK_TMP", OUT / "swap"))):
        planned = plan(case)
        arguments = [str(case.model), "CONFIG", str(steps)]
        training = TrainingRun(case.name, DATA / case.script, arguments, case.config)
        result = training.run(OUT / "plan-against-run")
        if result.returncode != 0:
            print(f"'{case.name}' ended with status {result.returncode}: {result.log}", file=sys.stderr)
            return 1
        rows.append(row(case, planned, result))
        print(rows[-1], flush=True)
    (OUT / "plan-against-run.json").write_text(json.dumps(rows, indent=1))
    print(table(rows))
    return 0


def cases(swap: Path) -> list[Case]:
    finetune, seed = on_drive("full-finetune.json", swap), on_drive("seed-003.json", swap)
    small, middle, whole, untied = make_model(4), make_model(12), make_model(), make_untied()
    from_drive = {"penstock": NOTHING_IN_RAM}
    trained, lora = ["--trainable", "all"], lora_options()
    full, grpo = "full_finetune.py", "grpo_lora.py"
    return [
        Case("4 layers, nothing in RAM", full, small, {**finetune, **from_drive}, trained),
        Case("4 layers, default", full, small, finetune, trained),
        Case("GRPO, nothing in RAM", grpo, whole, {**seed, **from_drive}, lora),
        Case("GRPO, default", grpo, whole, seed, lora),
        Case("12 layers, nothing in RAM", full, middle, {**finetune, **from_drive}, trained),
        Case("untied Llama, 400 MB in RAM", full, untied, {**finetune, "penstock": {"ram_bytes": "400MB"}}, trained),
    ]


def make_untied() -> Path:
    model = OUT / "llama-untied"
    if not (model / "model.safetensors").exists():
        subprocess.run([sys.executable, "-c", UNTIED, str(model)], check=True, stderr=subprocess.DEVNULL)
    return model


def plan(case: Case) -> dict[str, Any]:
    command = plan_command(case.model, case.config, OUT / "plan-against-run.config.json")
    done = subprocess.run(
        [*command, "--json", "--verbose", *case.options],
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
        stdout=subprocess.PIPE,
        check=True,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def row(case: Case, planned: dict[str, Any], result: Result) -> dict[str, Any]:
    steps = result.steps[2:]
    ran = result.stats["plan"]
    return {
        "run": case.name,
        "pinned": (planned["pinned_bytes"], ran["pinned_bytes"]),
        "resident": (planned["ram_bytes"], ran["ram_bytes"]),
        "read": (planned["per_step"]["read_bytes"], 1e9 * statistics.median(step.read_gb for step in steps)),
        "written": (planned["per_step"]["write_bytes"], 1e9 * statistics.mean(step.written_gb for step in steps)),
        "peak": (planned["process"]["peak_bytes"], 1e9 * result.peak_gb),
    }


def table(rows: list[dict[str, Any]]) -> str:
    keys = [key for key in rows[0] if key != "run"]
    lines = ["| run | " + " | ".join(f"{key}, GB" for key in keys) + " |", "| --- " * (len(keys) + 1) + "|"]
    for one in rows:
        cells = [f"{one[key][0] / 1e9:.3f} / {one[key][1] / 1e9:.3f}" for key in keys]
        lines.append(f"| {one['run']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
