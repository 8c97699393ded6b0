"""The main job: GRPO with LoRA on a Qwen3-0.6B-shaped model under a user's own configuration, three times.

    .venv/bin/python bench/main_job.py [--steps N]

Run by ./bench/quickstart after the set-up. Exit status 0 only if every run trained and all agree to the last digit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from lora_options import lora_options
from picture import draw
from run_port import clean_up_when_ended
from seeded_model import qwen3
from training_run import GRPO, Result, TrainingRun
from user_config import BINARY, OUT, SWAP, on_cpu, on_drive, plan_command


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3, help="optimizer steps a run (default 3)")
    steps = parser.parse_args().steps
    clean_up_when_ended()
    begin = time.monotonic()
    model = qwen3()
    runs = make_runs(model, steps)
    show_plan(model, runs[0])
    results = []
    for number, training in enumerate(runs, 1):
        say(f"run {number} of {len(runs)}: {training.name}, {steps} steps")
        results.append(training.run_well(OUT))
    picture = OUT / "quickstart.svg"
    draw(results, picture, "GRPO with LoRA, Qwen3-0.6B shape, under the user's own DeepSpeed configuration")
    agree = report(results)
    say("the model's tensors through the engine, against fio on the same drive (penstock bench --pair=fio)")
    print(f"  {against_fio(model)}", flush=True)
    say(f"picture: {picture}   logs and figures: {OUT}   took {time.monotonic() - begin:.0f} s")
    return 0 if agree else 1


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def make_runs(model: Path, steps: int) -> list[TrainingRun]:
    seed = on_drive("seed-003.json")
    from_drive = {**seed, "penstock": {"ram_bytes": 0, "max_pinned_bytes": "64MiB"}}
    return [
        TrainingRun("as the file is", GRPO, model, steps, seed),
        TrainingRun("all from the drive", GRPO, model, steps, from_drive),
        TrainingRun("device cpu", GRPO, model, steps, on_cpu(seed, "offload_param"), penstock=False),
    ]


def show_plan(model: Path, training: TrainingRun) -> None:
    say("the plan for this model under this file (penstock plan)")
    command = plan_command(model, training.config, OUT / "seed-003.json")
    # DS_ACCELERATOR: the runs train on the CPU, so that memory of the device is memory of the process.
    subprocess.run([*command, *lora_options()], check=False, env={**os.environ, "DS_ACCELERATOR": "cpu"})


def against_fio(model: Path) -> str:
    """Fetches the model's tensors in the order of a pass forward, fio as many bytes in requests of 1 MiB."""
    SWAP.mkdir(parents=True, exist_ok=True)
    report = OUT / "against_fio.json"
    command = [
        BINARY, "bench", "--name=against-fio", "--workload=swap",
        f"--inventory={model}", "--phase=forward", "--max_pinned=64MiB", "--ram=0", f"--directory={SWAP}",
        "--pair=fio", "--pairs=6", "--output-format=json", f"--output={report}",
    ]  # fmt: skip
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return f"was not measured: {done.stderr.strip() or f'penstock bench ended with status {done.returncode}'}"
    pair = json.loads(report.read_text())["jobs"][0]["pair"]
    return (
        f"{pair['ratio_median']:.2f} of fio's bandwidth (median of {pair['pairs']} pairs, IQR {pair['ratio_iqr']:.2f}) "
        f"at {pair['cpu_ratio_median']:.2f} of its CPU a byte; fio at its best: {pair['peer_settings']}"
    )


def report(results: list[Result]) -> bool:
    reference = results[-1].values
    say("what was planned, what moved, what was verified")
    rows = [
        ("", *[result.name for result in results]),
        ("planned: in RAM, GB", *[_plan(result, "ram_bytes") for result in results]),
        ("planned: on the drive, GB", *[_plan(result, "nvme_bytes") for result in results]),
        ("planned: pinned, GB", *[_plan(result, "pinned_bytes") for result in results]),
        ("pinned as the kernel counts, GB", *[f"{result.pinned_max / 1e9:.3f}" for result in results]),
        ("read a step, GB (kernel's count)", *[_each(result, "read_gb") for result in results]),
        ("written a step, GB", *[_each(result, "written_gb") for result in results]),
        ("read ahead of use, % of fetches", *[_ahead(result) for result in results]),
        ("waited for reads, s in all", *[_stall(result) for result in results]),
        ("seconds a step", *[_each(result, "seconds", 1) for result in results]),
        ("CPU seconds a step", *[_each(result, "cpu_seconds", 1) for result in results]),
        ("peak memory, GB", *[f"{result.peak_gb:.2f}" for result in results]),
        ("equal to device: cpu, all digits", *["yes" if result.values == reference else "NO" for result in results]),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print("   ".join([f"  {row[0].ljust(widths[0])}", *cells]))
    for number, step in enumerate(results[-1].steps, 1):
        print(f"  step {number}: {step.described()}")
    (OUT / "quickstart.json").write_text(json.dumps({row[0] or "run": row[1:] for row in rows}, indent=1))
    agree = all(result.values == reference for result in results)
    print("  all runs agree to the last digit" if agree else "  THE RUNS DIFFER", flush=True)
    return agree


def _plan(result: Result, key: str) -> str:
    plan = result.stats.get("plan")
    return f"{plan[key] / 1e9:.3f}" if plan else "-"


def _each(result: Result, attribute: str, digits: int = 2) -> str:
    return " ".join(f"{getattr(step, attribute):.{digits}f}" for step in result.steps)


def _ahead(result: Result) -> str:
    stats = result.stats.get("stats")
    if not stats:
        return "-"
    fetched = stats["hits"] + stats["late"] + stats["misses"]
    return f"{100 * stats['hits'] / fetched:.0f}" if fetched else "nothing fetched"


def _stall(result: Result) -> str:
    stats = result.stats.get("stats")
    return f"{stats['stall_ns'] / 1e9:.1f}" if stats else "-"


if __name__ == "__main__":
    sys.exit(main())
