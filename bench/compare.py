"""Compares training runs: interleaved there and back (ABBA), medians of steps, ratios.

    .venv/bin/python bench/compare.py finetune|grpo-default|grpo-resident [--rounds N] [--steps N]

The drive and the machine drift; runs of one comparison take turns, so that drift falls on all of them. Of each
run the first two steps (the order of use is being learnt) are left out. Writes bench/out/compare-NAME.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from main_job import OUT, make_model
from run_port import clean_up_when_ended
from training_run import TABLE_HEAD, Result, Sample, Step, TrainingRun, figures, table_row
from user_config import DATA, on_cpu, on_drive

WARM_UP_STEPS = 2
FINETUNE_PARAMETERS = 218_507_264  # of the 4-layer model


def finetune(swap: Path, steps: int) -> list[TrainingRun]:
    """Full fine-tuning of 4 layers, all of it on the drive, against stock DeepSpeed and no offload."""
    stock = on_drive("full-finetune.json", swap)
    ours = {**stock, "penstock": {"ram_bytes": 0}}
    script, arguments = DATA / "full_finetune.py", [str(make_model(4)), "CONFIG", str(steps)]
    return [
        TrainingRun("penstock, nothing in RAM", script, arguments, ours),
        TrainingRun("stock DeepSpeed", script, arguments, stock, penstock=False),
        TrainingRun("device cpu", script, arguments, on_cpu(stock), penstock=False),
    ]


def grpo_default(swap: Path, steps: int) -> list[TrainingRun]:
    """GRPO with LoRA on 28 layers under the user's file as it is, against no offload."""
    seed = on_drive("seed-003.json", swap)
    return [
        TrainingRun("penstock as the file is", *_grpo(steps), seed),
        TrainingRun("device cpu", *_grpo(steps), on_cpu(seed, "offload_param"), penstock=False),
    ]


def grpo_resident(swap: Path, steps: int) -> list[TrainingRun]:
    """The same with the embedding in RAM and 64 MiB pinned, against stock with its user's own patch."""
    seed = on_drive("seed-003.json", swap)
    rule = {"match": "*embed_tokens*", "place": "ram"}
    block = {"ram_bytes": "600MiB", "max_pinned_bytes": "64MiB", "tensors": [rule]}
    patch = DATA / "user_patch.py"
    return [
        TrainingRun("penstock, embedding in RAM", *_grpo(steps), {**seed, "penstock": block}),
        TrainingRun("stock DeepSpeed, patched", *_grpo(steps), seed, penstock=False, prelude=patch),
    ]


COMPARISONS = {"finetune": finetune, "grpo-default": grpo_default, "grpo-resident": grpo_resident}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Example: compare.py finetune --rounds 3"
    )
    parser.add_argument("comparison", choices=COMPARISONS)
    parser.add_argument("--rounds", type=int, default=1, help="times there and back (default 1: each side twice)")
    parser.add_argument("--steps", type=int, default=WARM_UP_STEPS + 5, help="steps a run (default 7)")
    arguments = parser.parse_args()
    if arguments.steps <= WARM_UP_STEPS or arguments.rounds < 1:
        parser.error(f"at least one round and {WARM_UP_STEPS + 1} steps are needed")
    clean_up_when_ended()
    OUT.mkdir(exist_ok=True)
    swap = Path(os.environ.get("PENSTOCK_TMP", OUT / "swap"))
    sides = COMPARISONS[arguments.comparison](swap, arguments.steps)
    runs = _take_turns(sides, arguments.rounds)
    if runs is None:
        return 1
    rows = {side.name: figures(runs[number], WARM_UP_STEPS) for number, side in enumerate(sides)}
    _add_ratios(rows, runs, sides)
    print(_table(rows, arguments.comparison))
    (OUT / f"compare-{arguments.comparison}.json").write_text(json.dumps(rows, indent=1))
    return 0 if len({tuple(run.values) for results in runs for run in results}) == 1 else 1


def _take_turns(sides: list[TrainingRun], rounds: int) -> list[list[Result]] | None:
    runs: list[list[Result]] = [[] for _ in sides]
    order = list(range(len(sides)))
    for turn in range(2 * rounds):
        for number in order if turn % 2 == 0 else reversed(order):
            print(f"== {turn + 1}/{2 * rounds}: {sides[number].name}", flush=True)
            result = sides[number].run(OUT / "compare", _say)
            if result.returncode != 0:
                print(f"ended with status {result.returncode}: {result.log}", file=sys.stderr)
                return None
            runs[number].append(result)
    return runs


def _say(name: str, step: Step | None, sample: Sample) -> None:
    if step:
        print(
            f"   {step.seconds:6.2f} s   CPU {step.cpu_seconds:6.2f} s   read {step.read_gb:.2f} GB   "
            f"written {step.written_gb:.2f} GB   {' '.join(step.values)}",
            flush=True,
        )


def _add_ratios(rows: dict[str, dict[str, Any]], runs: list[list[Result]], sides: list[TrainingRun]) -> None:
    """Of the first side to each other, turn by turn: the median of the turns' ratios of medians."""

    def middle(result: Result) -> float:
        return statistics.median(step.seconds for step in result.steps[WARM_UP_STEPS:])

    for number, side in enumerate(sides[1:], 1):
        ratios = [middle(ours) / middle(theirs) for ours, theirs in zip(runs[0], runs[number], strict=True)]
        rows[side.name]["first_takes"] = statistics.median(ratios)


def _table(rows: dict[str, dict[str, Any]], comparison: str) -> str:
    lines = [f"{TABLE_HEAD[0]} first takes |", f"{TABLE_HEAD[1]} --- |"]
    for name, row in rows.items():
        ratio = f"{row['first_takes']:.2f}" if "first_takes" in row else ""
        lines.append(f"{table_row(name, row)} {ratio} |")
    if comparison == "finetune":
        first = next(iter(rows.values()))
        read, written = (first[key] * 1e9 / FINETUNE_PARAMETERS for key in ("read_gb", "written_gb"))
        lines.append(f"\nfirst: {read:.1f} bytes read and {written:.1f} written a parameter and step")
    return "\n".join(lines)


def _grpo(steps: int) -> tuple[Path, list[str]]:
    return DATA / "grpo_lora.py", [str(make_model()), "CONFIG", str(steps)]


if __name__ == "__main__":
    sys.exit(main())
