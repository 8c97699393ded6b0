"""ZeRO-3 without offload, with `device: cpu`, with penstock and with DeepSpeed's own NVMe offload."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import swap_device
from figure import NotRunError
from measurement import Measurement
from paired_ratio import interval, quartiles

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

from leg import ONE_RANK
from run_port import clean_up_when_ended, own_port
from small_model import MAKER, small_model_script
from user_config import on_cpu, on_drive

STEPS = 8
WARM_STEPS = 2  # in which the order of use is learnt; of no ratio
LAYERS = 4
MAX_PINNED = "64MiB"
PINNED = "VmPin and VmLck, or what the engine counts if that is more, and torch's pinned memory at its most"
LEGS = ("cpu", "penstock", "stock", "none")


@dataclass
class Run:
    """What a leg gave, or why it gave nothing."""

    losses: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    pinned_by_kernel: int = 0
    pinned_by_torch: int = 0
    stats: dict[str, int] = field(default_factory=dict)
    reason: str = ""

    @property
    def pinned(self) -> int:
        """What the engine registers with a device is not in the kernel's count, with a ring it is."""
        return max(self.pinned_by_kernel, self.stats.get("pinned_bytes", 0)) + self.pinned_by_torch


class Trainer:
    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement
        self._work = measurement.work
        self._simulated = swap_device.simulated(measurement.device)
        self._model = self._make_model()
        self._compile()

    def run(self, leg: str) -> Run:
        """One training run in a process of its own."""
        directory = self._work / leg
        directory.mkdir(parents=True, exist_ok=True)
        config, result, stats = (directory / name for name in ("ds.json", "result.json", "stats.json"))
        config.write_text(json.dumps(self._config(leg), indent=1))
        for old in (result, stats):
            old.unlink(missing_ok=True)
        module = ["-m", "penstock.deepspeed"] if leg == "penstock" else []
        command = [sys.executable, *module, *map(str, (HERE / "train_loop.py", self._model, config, STEPS, result))]
        seconds = self._measurement.seconds_left()
        if seconds < 15:
            return Run(reason="the stage's time was over before it")
        log = directory / "log.txt"
        try:
            with own_port() as port, log.open("w") as out:
                environment = {**self._environment(stats), "MASTER_PORT": str(port)}
                done = subprocess.run(command, env=environment, stdout=out, stderr=out, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return Run(reason=f"it was not done after {seconds:.0f} s")
        if done.returncode != 0 or not result.exists():
            return Run(reason=last_error(log.read_text(errors="replace"), done.returncode))
        told = json.loads(result.read_text())
        counted = json.loads(stats.read_text())["stats"] if stats.exists() else {}
        return Run(**told, stats=counted)

    def _compile(self) -> None:
        """DeepSpeed's extensions all at once, which would else be compiled by the first legs, one after the other.

        One that cannot be compiled is told of by the leg that needs it.
        """
        for left in Path(os.environ.get("TORCH_EXTENSIONS_DIR", "/nowhere")).glob("**/lock"):
            left.unlink()  # of a run that was ended while it compiled: the next would wait for it
        names = ("CPUAdamBuilder", "AsyncIOBuilder", *(("ShareMemCommBuilder",) if self._simulated else ()))
        load = "import deepspeed.accelerator as a, sys; a.get_accelerator().create_op_builder(sys.argv[1]).load()"
        environment = self._environment(self._work / "none.json")
        compilers = []
        for name in names:
            with (self._work / f"{name}.log").open("w") as out:
                command = [sys.executable, "-c", load, name]
                compilers.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
        reserve = 0.6 * self._measurement.seconds_left()  # a slow compiler takes time from its own leg alone
        with contextlib.suppress(subprocess.TimeoutExpired):
            for compiler in compilers:
                compiler.wait(max(0.0, self._measurement.seconds_left() - reserve))

    def _environment(self, stats: Path) -> dict[str, str]:
        accelerator = {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"} if self._simulated else {}
        rank = {key: value for key, value in ONE_RANK.items() if key != "DS_ACCELERATOR"}
        return {
            **os.environ,
            **rank,
            **accelerator,
            **swap_device.deepspeed_environment(self._measurement.device),
            "NCCL_SOCKET_IFNAME": "lo",
            "GLOO_SOCKET_IFNAME": "lo",
            "PENSTOCK_STATS": str(stats),
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def _config(self, leg: str) -> dict[str, Any]:
        config = on_drive("full-finetune.json", self._measurement.swap)
        zero = config["zero_optimization"]
        if self._simulated:
            zero["sub_group_size"] = 2_000_000
            zero["offload_param"]["buffer_size"] = 1e7
        if leg == "cpu":
            return on_cpu(config)
        if leg == "none":
            del zero["offload_param"], zero["offload_optimizer"]
            config["optimizer"]["params"]["torch_adam"] = True  # nothing to compile
        if leg == "penstock":
            config["penstock"] = {"ram_bytes": 0, "max_pinned_bytes": MAX_PINNED}
        return config

    def _make_model(self) -> Path:
        """Random weights in Qwen3's shape."""
        model = self._work / ("small" if self._simulated else f"qwen3-{LAYERS}-layers")
        if (model / "model.safetensors").exists():
            return model
        maker = self._work / "make.py"
        maker.write_text(small_model_script() if self._simulated else MAKER.read_text())
        layers = "2" if self._simulated else str(LAYERS)
        done = subprocess.run(
            [sys.executable, maker, model, layers], capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode != 0:
            raise NotRunError(f"the model cannot be made: {last_error(done.stderr, done.returncode)}")
        return model


def last_error(log: str, status: int) -> str:
    """The last line that looks like one."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or line.startswith("penstock:")]
    said = (errors or lines or [f"status {status}"])[-1]
    return said if len(said) <= 300 else f"{said[:297]}..."


def measure(measurement: Measurement) -> None:
    clean_up_when_ended()
    for name in ("torch", "transformers", "deepspeed", "penstock"):
        if importlib.util.find_spec(name) is None:
            raise NotRunError(f"this Python has no {name}")
    if not swap_device.simulated(measurement.device):
        import torch

        if not torch.cuda.is_available():
            raise NotRunError(f"torch {torch.__version__} sees no GPU")
    trainer = Trainer(measurement)
    runs = {leg: [trainer.run(leg)] for leg in LEGS}
    tell(measurement, runs)
    for leg in ("stock", "penstock"):  # there and back
        again = trainer.run(leg) if not runs[leg][0].reason else runs[leg][0]
        if not again.reason:
            runs[leg].append(again)
    tell(measurement, runs)


def tell(measurement: Measurement, runs: dict[str, list[Run]]) -> None:
    for leg in ("penstock", "stock", "none"):
        tell_equality(measurement, f"equal_{leg}", runs[leg], runs["cpu"][0])
    for key, over, under in (
        ("step_over_stock", "penstock", "stock"),
        ("step_over_cpu", "penstock", "cpu"),
        ("stock_over_cpu", "stock", "cpu"),
    ):
        tell_ratio(measurement, key, runs[over], runs[under])
    for leg in ("penstock", "stock"):
        first = runs[leg][0]
        if first.reason:
            measurement.not_run(f"pinned_{leg}", first.reason)
        else:
            held = max(run.pinned for run in runs[leg])
            measurement.tell(f"pinned_{leg}", held / 1e9, note=PINNED)
    tell_counters(measurement, runs["penstock"][0])


def tell_equality(measurement: Measurement, key: str, runs: list[Run], reference: Run) -> None:
    reason = runs[0].reason or (f"`device: cpu`: {reference.reason}" if reference.reason else "")
    if reason:
        measurement.not_run(key, reason)
        return
    equal = min(sum(a == b for a, b in zip(run.losses, reference.losses, strict=True)) for run in runs)
    apart = max(abs(float(a) - float(b)) for run in runs for a, b in zip(run.losses, reference.losses, strict=True))
    expected = "; its optimizer steps on the device, so that digits may differ" if key == "equal_none" else ""
    measurement.tell(key, f"{equal} of {len(reference.losses)}", note=f"furthest apart {apart:.3g}{expected}")


def tell_ratio(measurement: Measurement, key: str, over: list[Run], under: list[Run]) -> None:
    reason = over[0].reason or under[0].reason
    if reason:
        measurement.not_run(key, reason)
        return
    above = [second for run in over for second in run.seconds[WARM_STEPS:]]
    below = [second for run in under for second in run.seconds[WARM_STEPS:]]
    pairs = min(len(above), len(below))
    ratios = [a / b for a, b in zip(above[:pairs], below[:pairs], strict=True)]
    medians = " and ".join(f"{statistics.median(seconds):.3f}" for seconds in (above, below))
    note = f"steps of {len(over)} and {len(under)} runs; s a step {medians}"
    measurement.tell(
        key, statistics.median(ratios), interval=interval(ratios), quartiles=quartiles(ratios), pairs=pairs, note=note
    )


def tell_counters(measurement: Measurement, run: Run) -> None:
    """What penstock says of itself."""
    if run.reason or not run.stats:
        for key in ("stall_share", "device_path"):
            measurement.not_run(key, run.reason or "penstock told no counters")
        return
    waited = run.stats["stall_ns"] / 1e9
    measurement.tell("stall_share", waited / sum(run.seconds), note=f"{waited:.2f} s, the first steps too")
    through = swap_device.through_device(run.stats)
    if through is None:
        measurement.not_run("device_path", "this penstock has no devices: it counts no such bytes")
    else:
        read, written = run.stats["tensor_read_bytes"] / 1e9, run.stats["tensor_write_bytes"] / 1e9
        measurement.tell("device_path", through / 1e9, note=f"of {read:.2f} read and {written:.2f} written")
