"""ZeRO-3 without offload, with `device: cpu`, with penstock and with DeepSpeed's own NVMe offload."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from compiled_ops import compile_ops
from run_port import clean_up_when_ended
from seeded_model import SMALL, qwen3, seeded_model
from stage import Stage
from swap_device import simulated, through_device, training_environment
from training_run import FINETUNE, ONE_RANK, Result, TrainingRun
from user_config import on_cpu, on_drive

STEPS = 8
WARM_STEPS = 2  # in which the order of use is learnt; of no ratio
LAYERS = 4
ORDER = ("device cpu", "penstock", "stock", "no offload", "stock", "penstock")


class Trainer:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._simulated = simulated(stage.device)
        self._environment = training_environment(stage.device)
        if self._simulated:
            self._environment |= {"OMP_NUM_THREADS": "1", "PENSTOCK_DEVICE": stage.device}
        self._model = seeded_model(SMALL, stage.work / "small") if self._simulated else qwen3(LAYERS, stage.work)
        names = ("CPUAdamBuilder", "AsyncIOBuilder", *(("ShareMemCommBuilder",) if self._simulated else ()))
        compile_ops(stage, names, {**ONE_RANK, **self._environment})

    def run(self, name: str) -> Result:
        of_penstock, changes = name == "penstock", self._environment
        training = TrainingRun(name, FINETUNE, self._model, STEPS, self._config(name), of_penstock, environment=changes)
        result = training.run(self._stage.work)
        if result.returncode != 0:
            print(result.log.read_text(errors="replace")[-2000:], flush=True)
        return result

    def _config(self, name: str) -> dict[str, Any]:
        config = on_drive("full-finetune.json", self._stage.swap)
        zero = config["zero_optimization"]
        if self._simulated:
            zero["sub_group_size"] = 2_000_000
            zero["offload_param"]["buffer_size"] = 1e7
        if name == "device cpu":
            return on_cpu(config)
        if name == "no offload":
            del zero["offload_param"], zero["offload_optimizer"]
            config["optimizer"]["params"]["torch_adam"] = True  # nothing to compile
        if name == "penstock":
            config["penstock"] = {"ram_bytes": 0, "max_pinned_bytes": "64MiB"}
        return config


def report(stage: Stage, results: dict[str, list[Result]]) -> None:
    """Of those that have run; one that failed has a reason in place of its losses."""
    reference = results["device cpu"][0].values
    for name, runs in results.items():
        failed = [result for result in runs if result.returncode != 0]
        if failed or name == "device cpu":
            said = f"not run: it ended with status {failed[0].returncode} ({name}/log.txt)" if failed else "run"
            stage.row(f"training, {name}", said)
            continue
        equal = min(sum(a == b for a, b in zip(result.values, reference, strict=False)) for result in runs)
        pairs = [(float(a[0]), float(b[0])) for one in runs for a, b in zip(one.values, reference, strict=False)]
        apart = max((abs(a - b) for a, b in pairs), default=0.0)
        note = "; its optimizer steps on the device, so that digits may differ" if name == "no offload" else ""
        measured = f"{equal} of {len(reference)} steps"
        stage.row(
            f"losses equal to device cpu's, all digits: {name}", measured, "", f"furthest apart {apart:.3g}{note}"
        )
    for over, under in (("penstock", "stock"), ("penstock", "device cpu"), ("stock", "device cpu")):
        above, below = (seconds(results.get(name, [])) for name in (over, under))
        ratios = [a / b for a, b in zip(above, below, strict=False)]
        if ratios:
            note = f"s a step {statistics.median(above):.3f} and {statistics.median(below):.3f}"
            stage.median(f"step's time, {over} over {under}", ratios, note=note)
    for result in results.get("penstock", []):
        if counted := result.stats.get("stats"):
            waited, all_steps = counted["stall_ns"] / 1e9, sum(step.seconds for step in result.steps)
            share = f"{waited / all_steps:.3f}" if all_steps else "-"
            stage.row("share of the steps that penstock's callers waited", share, "", "the first steps too")
            moved = (counted["tensor_read_bytes"] + counted["tensor_write_bytes"]) / 1e9
            stage.row(
                "went between drive and device", f"{through_device(counted):.2f} GB", "", f"of {moved:.2f} GB moved"
            )
            stage.row("host memory pinned with penstock", f"{counted['pinned_bytes'] / 1e9:.3f} GB")


def seconds(results: list[Result]) -> list[float]:
    return [step.seconds for result in results for step in result.steps[WARM_STEPS:]]


def main() -> None:
    clean_up_when_ended()
    stage = Stage()
    trainer = Trainer(stage)
    results: dict[str, list[Result]] = {}
    for name in ORDER:
        results.setdefault(name, []).append(trainer.run(name))
        report(stage, results)


if __name__ == "__main__":
    main()
