"""Full fine-tuning of a model that this machine's memory cannot hold: what it needs and where, then some steps of it.

    .venv/bin/python bench/large.py [qwen3-1.7b|qwen2.5-3b] [--steps N] [--states 8bit] [--stock]

Prints the plan first, and ends there where memory or drive are too small. The weights are random; shapes
and bytes are the model's. With --stock DeepSpeed alone trains the same, with the buffers that `penstock plan
--emit-config` finds for it, and losses must be equal. Prints a table for docs/BENCHMARKS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from main_job import OUT
from run_port import clean_up_when_ended
from training_run import TABLE_HEAD, Sample, Step, TrainingRun, figures, table_row
from user_config import DATA, on_drive, plan_command

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
    plan = [*plan_command(list_tensors(shape), config, shape / "ds_config.json"), "--trainable", "all"]
    status = subprocess.run(plan, check=False).returncode
    if status != 0 or options.plan:
        return status
    if not model.exists():
        print(f"making {model}", flush=True)
        partial = Path(f"{model}.partial")
        run(WEIGHTS, str(shape), str(partial))
        partial.rename(model)
    runs = [training("penstock", model, config, options.steps)]
    if options.stock:
        emitted = subprocess.run([*plan, "--emit-config"], stdout=subprocess.PIPE, text=True, check=True).stdout
        stock = json.loads(emitted)
        runs.append(training("stock", model, {key: stock[key] for key in stock if key != "penstock"}, options.steps))
    results = [each.run(OUT / "large", progress) for each in runs]
    for result in results:
        if result.returncode != 0:
            print(f"'{result.name}' ended with status {result.returncode}: {result.log}", file=sys.stderr)
            return 1
    warm_up = min(1, options.steps - 1)
    print("\n".join([*TABLE_HEAD, *(table_row(each.name, figures([each], warm_up)) for each in results)]))
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


def list_tensors(shape: Path) -> Path:
    inventory = shape / "inventory.json"
    listing = subprocess.run([sys.executable, LISTING, shape], stdout=subprocess.PIPE, text=True, check=True)
    inventory.write_text(listing.stdout)
    return inventory


def training(name: str, model: Path, config: dict[str, Any], steps: int) -> TrainingRun:
    arguments = [str(model), "CONFIG", str(steps)]
    return TrainingRun(name, DATA / "full_finetune.py", arguments, config, penstock=name != "stock")


def progress(name: str, step: Step | None, sample: Sample) -> None:
    if step is not None:
        print(f"  {name} {sample.seconds:5.0f} s: step of {step.seconds:.1f} s, loss {step.values[0]}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
