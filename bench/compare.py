"""Compares training runs: interleaved there and back (ABBA), medians of steps, ratios.

    .venv/bin/python bench/compare.py finetune|grpo-default|grpo-resident [--rounds N] [--steps N]

The drive and the machine drift; runs of one comparison take turns, so that drift falls on all of them. Of each
run the first two steps (the order of use is being learnt) are left out. Writes bench/out/compare-NAME.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from markdown import table
from run_port import clean_up_when_ended
from seeded_model import qwen3
from training_run import FINETUNE, GRPO, TABLE_HEAD, Result, TrainingRun, figures, table_row
from user_config import DATA, OUT, on_cpu, on_drive

WARM_UP_STEPS = 2
FINETUNE_PARAMETERS = 218_507_264  # of the 4-layer model


def finetune(steps: int) -> list[TrainingRun]:
    """Full fine-tuning of 4 layers, all of it on the drive, against stock DeepSpeed and no offload."""
    stock = on_drive("full-finetune.json")
    ours = {**stock, "penstock": {"ram_bytes": 0}}
    model = qwen3(4)
    return [
        TrainingRun("penstock, nothing in RAM", FINETUNE, model, steps, ours),
        TrainingRun("stock DeepSpeed", FINETUNE, model, steps, stock, penstock=False),
        TrainingRun("device cpu", FINETUNE, model, steps, on_cpu(stock), penstock=False),
    ]


def grpo_default(steps: int) -> list[TrainingRun]:
    """GRPO with LoRA on 28 layers under the user's file as it is, against no offload."""
    seed = on_drive("seed-003.json")
    return [
        TrainingRun("penstock as the file is", GRPO, qwen3(), steps, seed),
        TrainingRun("device cpu", GRPO, qwen3(), steps, on_cpu(seed, "offload_param"), penstock=False),
    ]


def grpo_resident(steps: int) -> list[TrainingRun]:
    """The same with the embedding in RAM and 64 MiB pinned, against stock with its user's own patch."""
    seed = on_drive("seed-003.json")
    rule = {"match": "*embed_tokens*", "place": "ram"}
    block = {"ram_bytes": "600MiB", "max_pinned_bytes": "64MiB", "tensors": [rule]}
    patch = DATA / "user_patch.py"
    return [
        TrainingRun("penstock, embedding in RAM", GRPO, qwen3(), steps, {**seed, "penstock": block}),
        TrainingRun("stock DeepSpeed, patched", GRPO, qwen3(), steps, seed, penstock=False, prelude=patch),
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
    sides = COMPARISONS[arguments.comparison](arguments.steps)
    runs = _take_turns(sides, arguments.rounds)
    rows = {side.name: figures(results, WARM_UP_STEPS) for side, results in zip(sides, runs, strict=True)}
    for side, results in zip(sides[1:], runs[1:], strict=True):
        rows[side.name]["first_takes"] = _first_takes(runs[0], results)
    ratios = ["", *(f"{rows[side.name]['first_takes']:.2f}" for side in sides[1:])]
    cells = [[*table_row(name, row), ratio] for (name, row), ratio in zip(rows.items(), ratios, strict=True)]
    print(table([*TABLE_HEAD, "first takes"], cells))
    if arguments.comparison == "finetune":
        first = rows[sides[0].name]
        read, written = (first[key] * 1e9 / FINETUNE_PARAMETERS for key in ("read_gb", "written_gb"))
        print(f"\nfirst: {read:.1f} bytes read and {written:.1f} written a parameter and step")
    (OUT / f"compare-{arguments.comparison}.json").write_text(json.dumps(rows, indent=1))
    return 0 if len({tuple(run.values) for results in runs for run in results}) == 1 else 1


def _take_turns(sides: list[TrainingRun], rounds: int) -> list[list[Result]]:
    runs: list[list[Result]] = [[] for _ in sides]
    order = list(range(len(sides)))
    for turn in range(2 * rounds):
        for number in order if turn % 2 == 0 else reversed(order):
            print(f"== {turn + 1}/{2 * rounds}: {sides[number].name}", flush=True)
            runs[number].append(sides[number].run_well(OUT / "compare"))
    return runs


def _first_takes(first: list[Result], other: list[Result]) -> float:
    """Of the other's time, turn by turn: the median of the turns' ratios of medians."""

    def middle(result: Result) -> float:
        return statistics.median(step.seconds for step in result.steps[WARM_UP_STEPS:])

    return statistics.median(middle(ours) / middle(theirs) for ours, theirs in zip(first, other, strict=True))


if __name__ == "__main__":
    sys.exit(main())
