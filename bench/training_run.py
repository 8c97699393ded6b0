"""One training run in a process of its own: watched from outside, its figures read from what it prints."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_port import own_port
from user_config import DATA

FINETUNE, GRPO = DATA / "full_finetune.py", DATA / "grpo_lora.py"
SAMPLE_SECONDS = 0.25
SILENCE_SECONDS = 15  # at most, where the output is no terminal

# The environment of one rank on the CPU accelerator; two ranks get theirs from torchrun.
ONE_RANK = {
    "DS_ACCELERATOR": "cpu",
    "LOCAL_SIZE": "1",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
}


@dataclass
class Sample:
    """What /proc says of the process; bytes, seconds since its start."""

    seconds: float
    rss: int
    pinned: int
    read: int
    written: int


@dataclass
class Step:
    """One optimizer step: what must be equal in every run, and what it cost."""

    values: tuple[str, ...] = ()
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    read_gb: float = 0.0
    written_gb: float = 0.0

    def described(self) -> str:
        return ", ".join(
            f"{what} {value}" for what, value in zip(("loss", "gradient norm", "reward"), self.values, strict=False)
        )


@dataclass
class Result:
    name: str
    returncode: int
    steps: list[Step]
    samples: list[Sample]
    peak_gb: float
    stats: dict[str, Any] = field(default_factory=dict)
    log: Path = Path()

    @property
    def values(self) -> list[tuple[str, ...]]:
        return [step.values for step in self.steps]

    @property
    def pinned_max(self) -> int:
        return max((sample.pinned for sample in self.samples), default=0)


@dataclass
class TrainingRun:
    """A script on a model under a configuration. `penstock`: through `python -m penstock.deepspeed`."""

    name: str
    script: Path
    model: Path
    steps: int
    config: dict[str, Any]
    penstock: bool = True
    prelude: Path | None = None  # executed before the script, in its process
    environment: dict[str, str] = field(default_factory=dict)  # over that of one rank on the CPU accelerator

    def run_well(self, out: Path) -> Result:
        """Says how it goes; ends this process where the run did not make all of its steps."""
        result = self.run(out, Progress(self.steps))
        if result.returncode == 0 and len(result.steps) == self.steps:
            return result
        log = result.log.read_text(errors="replace")
        print("".join(log.splitlines(keepends=True)[-25:]), file=sys.stderr)
        ended = f"'{self.name}' ended with status {result.returncode} after {len(result.steps)} steps"
        sys.exit(f"{ended}; its whole output: {result.log}")

    def run(self, out: Path, progress: Progress | None = None) -> Result:
        directory = out / re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        directory.mkdir(parents=True, exist_ok=True)
        config_file = directory / "ds_config.json"
        config_file.write_text(json.dumps(self.config, indent=1))
        stats_file = directory / "stats.json"
        stats_file.unlink(missing_ok=True)
        log = directory / "log.txt"
        environment = {
            **os.environ,
            **ONE_RANK,
            "PENSTOCK_STATS": str(stats_file),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            **self.environment,
        }
        with own_port() as port, log.open("w") as log_file:
            process = subprocess.Popen(
                self._command(config_file),
                env={**environment, "MASTER_PORT": str(port)},
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            watch = _Watch(process.pid)
            try:
                steps = self._follow(process, log_file, watch, progress)
                returncode = process.wait()
            finally:
                process.kill()  # when we are interrupted: it would go on, and make what is about to be removed
                process.wait()
                watch.stop()
        stats = json.loads(stats_file.read_text()) if stats_file.exists() else {}
        return Result(self.name, returncode, steps, watch.samples, watch.peak_gb, stats, log)

    def _command(self, config_file: Path) -> list[str]:
        script = [str(self.script), str(self.model), str(config_file), str(self.steps)]
        if self.prelude:
            run = (
                "import sys, runpy; exec(open(sys.argv[1]).read()); sys.argv = sys.argv[2:]; "
                "runpy.run_path(sys.argv[0], run_name='__main__')"
            )
            return [sys.executable, "-c", run, str(self.prelude), *script]
        if self.penstock:
            return [sys.executable, "-m", "penstock.deepspeed", *script]
        return [sys.executable, *script]

    @staticmethod
    def _follow(process: subprocess.Popen[str], log_file: Any, watch: _Watch, progress: Progress | None) -> list[Step]:
        steps: list[Step] = []
        last = 0.0
        assert process.stdout is not None
        for line in process.stdout:
            log_file.write(line)
            log_file.flush()
            finished = parse(line, steps)
            now = time.monotonic()
            if progress and (finished or now - last > 1.0) and watch.samples:
                last = now
                progress(steps[-1] if finished and steps else None, watch.samples[-1])
        return steps


class Progress:
    """A line a step; on a terminal a line a second between them, written over."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._terminal = sys.stdout.isatty()
        self._begin = time.monotonic()
        self._said = 0.0

    def __call__(self, step: Step | None, sample: Sample) -> None:
        elapsed = time.monotonic() - self._begin
        state = f"{elapsed:5.0f} s   memory {sample.rss / 1e9:5.2f} GB   read {sample.read / 1e9:6.2f} GB"
        if step:
            self._done += 1
            done = f"step {self._done}/{self._steps}: {step.seconds:.1f} s, {step.described()}"
            print(("\r\033[K" if self._terminal else "") + f"  {state}   {done}", flush=True)
        elif self._terminal:
            what = "loading" if self._done == 0 else "training"
            print(f"\r\033[K  {state}   {what}", end="", flush=True)
        elif elapsed - self._said > SILENCE_SECONDS:
            self._said = elapsed
            print(f"  {state}", flush=True)


def parse(line: str, steps: list[Step]) -> bool:
    """Reads one line of bench/data's scripts; true when it completes a step."""
    if match := re.search(r"METER s (\S+) cpu (\S+) read_GB (\S+) write_GB (\S+)", line):
        steps.append(Step((), *(float(value) for value in match.groups())))
        return False
    if match := re.search(r"LOSS \d+ (\S+) (\S+) (\S+)", line):  # loss, gradient norm, reward
        if not steps or steps[-1].values:
            steps.append(Step())
        steps[-1].values = match.groups()
        return True
    pattern = r"STEP \d+ loss (\S+) .* total (\S+) cpu (\S+) read (\S+) write (\S+) GB"
    if match := re.search(pattern, line):
        loss, *figures = match.groups()
        steps.append(Step((loss,), *(float(value) for value in figures)))
        return True
    return False


TABLE_HEAD = ["run", "step s (least, most)", "CPU s", "read GB", "written GB", "peak GB", "pinned GB"]


def figures(results: Sequence[Result], warm_up_steps: int) -> dict[str, Any]:
    """Of runs of one kind: what docs/BENCHMARKS.md has of them; without each run's first steps."""
    steps = [step for result in results for step in result.steps[warm_up_steps:]]
    return {
        "steps": len(steps),
        "seconds": statistics.median(step.seconds for step in steps),
        "seconds_min": min(step.seconds for step in steps),
        "seconds_max": max(step.seconds for step in steps),
        "cpu_seconds": statistics.median(step.cpu_seconds for step in steps),
        # A mean, since what one step reads ahead or leaves to be written is the next step's in the kernel's count.
        "read_gb": statistics.mean(step.read_gb for step in steps),
        "written_gb": statistics.mean(step.written_gb for step in steps),
        "peak_gb": max(result.peak_gb for result in results),
        "pinned_gb": max(result.pinned_max for result in results) / 1e9,
        "values": results[0].values,
    }


def table_row(name: str, row: dict[str, Any]) -> list[str]:
    """Cells under TABLE_HEAD; further ones may follow."""
    seconds = f"{row['seconds']:.2f} ({row['seconds_min']:.2f}, {row['seconds_max']:.2f})"
    costs = [f"{row[key]:.2f}" for key in ("cpu_seconds", "read_gb", "written_gb", "peak_gb")]
    return [name, seconds, *costs, f"{row['pinned_gb']:.3f}"]


class _Watch:
    """Samples a process until it ends."""

    def __init__(self, pid: int) -> None:
        self.samples: list[Sample] = []
        self.peak_gb = 0.0
        self._pid = pid
        self._begin = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            try:
                status = _fields(f"/proc/{self._pid}/status")
                io = _fields(f"/proc/{self._pid}/io")
            except OSError:
                return
            if "VmRSS" not in status:  # a zombie
                return
            kib = {key: int(status.get(key, "0 kB").split()[0]) for key in ("VmRSS", "VmHWM", "VmLck", "VmPin")}
            self.peak_gb = max(self.peak_gb, kib["VmHWM"] * 1024 / 1e9)
            self.samples.append(
                Sample(
                    time.monotonic() - self._begin,
                    kib["VmRSS"] * 1024,
                    (kib["VmLck"] + kib["VmPin"]) * 1024,
                    int(io["read_bytes"]),
                    int(io["write_bytes"]),
                )
            )


def _fields(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        return {key: value.strip() for key, _, value in (line.partition(":") for line in file)}
