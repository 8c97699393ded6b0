"""Full fine-tuning of a model that this machine's memory cannot hold: what it needs and where, then some steps of it.

    .venv/bin/python bench/large.py [qwen3-1.7b|qwen2.5-3b] [--steps N] [--states 8bit] [--stock]

Prints the plan first, and ends there with numbers where memory or drive are too small. The weights are random; shapes
and bytes are the model's. With --stock DeepSpeed alone trains the same, with the buffers that `penstock plan
--emit-config` finds for it, and losses must be equal. Prints a table for docs/BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from main_job import OUT
from run_port import clean_up_when_ended
from training_run import Result, Sample, Step, TrainingRun
from user_config import DATA, on_drive

SHAPES = {
    "qwen3-1.7b": "Qwen3Config(dtype='bfloat16', vocab_size=151936, hidden_size=2048, intermediate_size=6144, "
    "num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True)",
    "qwen2.5-3b": "Qwen2Config(dtype='bfloat16', vocab_size=151936, hidden_size=2048, intermediate_size=11008, "
    "num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=2, tie_word_embeddings=True)",
}
CONFIGURATION = "import sys; from transformers import Qwen2Config, Qwen3Config; {shape}.save_pretrained(sys.argv[1])"
WEIGHTS = """
import sys, torch
from transformers import AutoConfig, AutoModelForCausalLM
torch.manual_seed(0)
config = AutoConfig.from_pretrained(sys.argv[1])
AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(sys.argv[2])
"""
LISTING = Path(__file__).resolve().parents[1] / "bindings" / "python" / "penstock" / "inventory.py"
BINARY = os.environ.get("PENSTOCK_BINARY", str(Path(sys.executable).parent / "penstock"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="example: bench/large.py qwen3-1.7b")
    parser.add_argument("model", nargs="?", default="qwen3-1.7b", choices=SHAPES, help="shape (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="optimizer steps (default: %(default)s)")
    parser.add_argument("--sub-group-size", type=float, default=1e9, help="elements (default: DeepSpeed's 1e9)")
    parser.add_argument("--states", default="fp32", help="optimizer_states: fp32, bf16, 8bit, 4bit (default: fp32)")
    parser.add_argument("--stock", action="store_true", help="DeepSpeed alone as well")
    parser.add_argument("--plan", action="store_true", help="print what it needs, and end there")
    options = parser.parse_args()
    clean_up_when_ended()
    model = OUT / "large" / options.model
    shape = Path(f"{model}.shape")
    run(CONFIGURATION.format(shape=SHAPES[options.model]), str(shape))
    config = configuration(options)
    document, stock = plan(shape, config)
    if not fits(document, model):
        return 1
    if options.plan:
        return 0
    if not model.exists():
        print(f"making {model}", flush=True)
        partial = Path(f"{model}.partial")
        run(WEIGHTS, str(shape), str(partial))
        partial.rename(model)
    runs = [training("penstock", model, config, options.steps)]
    if options.stock:
        runs.append(training("stock", model, {key: stock[key] for key in stock if key != "penstock"}, options.steps))
    results = [each.run(OUT / "large", progress) for each in runs]
    for result in results:
        print(row(result))
        if result.returncode != 0:
            print(f"'{result.name}' ended with status {result.returncode}: {result.log}", file=sys.stderr)
            return 1
    if options.states == "fp32" and len({str(result.values) for result in results}) > 1:
        print(f"losses differ: {[result.values for result in results]}", file=sys.stderr)
        return 1
    return 0


def run(code: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)


def configuration(options: argparse.Namespace) -> dict[str, Any]:
    swap = Path(os.environ.get("PENSTOCK_TMP", OUT / "swap"))
    config = on_drive("full-finetune.json", swap)
    config["zero_optimization"]["sub_group_size"] = int(options.sub_group_size)
    config["penstock"] = {"ram_bytes": 0, "max_pinned_bytes": "64MiB", "optimizer_states": options.states}
    return config


def plan(shape: Path, config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`penstock plan --json` of the run, and the configuration that it emits."""
    inventory, file = shape / "inventory.json", shape / "ds_config.json"
    listing = subprocess.run([sys.executable, LISTING, shape], stdout=subprocess.PIPE, text=True, check=True)
    inventory.write_text(listing.stdout)
    file.write_text(json.dumps(config))
    command = [BINARY, "plan", str(inventory), "--config", str(file), "--trainable", "all"]
    documents = []
    for option in (["--json", "--verbose"], ["--emit-config"]):
        done = subprocess.run([*command, *option], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 3):
            raise SystemExit(done.returncode)
        documents.append(json.loads(done.stdout))
    return documents[0], documents[1]


def fits(document: dict[str, Any], model: Path) -> bool:
    """Prints what goes where, and what of it is missing here."""
    rows = {(row["component"], row["place"]): row["bytes_per_rank"] for row in document["memory"]}
    weights = rows[("parameters", "nvme")] + rows.get(("parameters", "device"), 0)
    for name, what in (("parameters", "bf16"), ("master", "fp32"), ("moments", "both")):
        print(f"  {name:<11}{rows.get((name, 'nvme'), 0) / 1e9:6.1f} GB on the drive ({what})")
    process, step = document["process"], document["per_step"]
    print(f"  gradients  {rows.get(('gradients', 'ram'), 0) / 1e9:6.1f} GB in RAM, which DeepSpeed keeps there")
    print(f"  a step reads {step['read_bytes'] / 1e9:.1f} GB and writes {step['write_bytes'] / 1e9:.1f} GB")
    pinned = document["pinned_bytes"] >> 20
    print(f"  the process has {process['peak_bytes'] / 1e9:.1f} GB at its peak, {pinned} MiB of them pinned")
    missing = [w["text"] for w in document["warnings"] if w["code"] in ("memory", "drive-space", "path-unusable")]
    made = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    free, needed = shutil.disk_usage(model.parent).free, document["nvme_bytes"] + max(0, weights - made)
    print(
        f"  the drive needs {needed / 1e9:.1f} GB, the model's file among them; {free / 1e9:.1f} GB are free",
        flush=True,
    )
    if free < needed:
        missing.append(f"{(needed - free) / 1e9:.1f} GB are missing on the drive of {model}")
    for text in missing:
        print(f"does not fit: {text}", file=sys.stderr)
    return not missing


def training(name: str, model: Path, config: dict[str, Any], steps: int) -> TrainingRun:
    arguments = [str(model), "CONFIG", str(steps)]
    return TrainingRun(name, DATA / "full_finetune.py", arguments, config, penstock=name != "stock")


def progress(name: str, step: Step | None, sample: Sample) -> None:
    if step is not None:
        print(f"  {name} {sample.seconds:5.0f} s: step of {step.seconds:.1f} s, loss {step.values[0]}", flush=True)


def row(result: Result) -> str:
    """step s | CPU s | read GB | written GB | peak GB | pinned MiB"""
    steady = result.steps[1:] or result.steps
    figures = (
        [
            statistics.median(getattr(step, key) for step in steady)
            for key in ("seconds", "cpu_seconds", "read_gb", "written_gb")
        ]
        if steady
        else [0.0] * 4
    )
    cells = [f"{figure:.2f}" for figure in (*figures, result.peak_gb)]
    return f"| {result.name} | {' | '.join(cells)} | {result.pinned_max >> 20} |"


if __name__ == "__main__":
    raise SystemExit(main())
