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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_port import own_port

SAMPLE_SECONDS = 0.25

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


@dataclass
class Result:
    name: str
    returncode: int
    steps: list[Step]
    samples: list[Sample]
    peak_gb: float
    stats: dict[str, Any] = field(default_factory=dict)
    log: Path | None = None

    @property
    def values(self) -> list[tuple[str, ...]]:
        return [step.values for step in self.steps]

    @property
    def pinned_max(self) -> int:
        return max((sample.pinned for sample in self.samples), default=0)


@dataclass
class TrainingRun:
    """A script under a configuration. `penstock`: through `python -m penstock.deepspeed`."""

    name: str
    script: Path
    arguments: list[str]
    config: dict[str, Any]
    penstock: bool = True
    prelude: Path | None = None  # executed before the script, in its process
    environment: dict[str, str] = field(default_factory=dict)  # over that of one rank on the CPU accelerator

    def run(self, out: Path, progress: Callable[[str, Step | None, Sample], None] | None = None) -> Result:
        with own_port() as port:
            return self._run(out, progress, port)

    def _run(self, out: Path, progress: Callable[[str, Step | None, Sample], None] | None, port: int) -> Result:
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
            "MASTER_PORT": str(port),
            "PENSTOCK_STATS": str(stats_file),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            **self.environment,
        }
        with log.open("w") as log_file:
            process = subprocess.Popen(
                self._command(config_file),
                env=environment,
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
        script = [str(self.script), *[str(config_file) if a == "CONFIG" else a for a in self.arguments]]
        if self.prelude:
            run = (
                "import sys, runpy; exec(open(sys.argv[1]).read()); sys.argv = sys.argv[2:]; "
                "runpy.run_path(sys.argv[0], run_name='__main__')"
            )
            return [sys.executable, "-c", run, str(self.prelude), *script]
        if self.penstock:
            return [sys.executable, "-m", "penstock.deepspeed", *script]
        return [sys.executable, *script]

    def _follow(
        self,
        process: subprocess.Popen[str],
        log_file: Any,
        watch: _Watch,
        progress: Callable[[str, Step | None, Sample], None] | None,
    ) -> list[Step]:
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
                progress(self.name, steps[-1] if finished and steps else None, watch.samples[-1])
        return steps


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


TABLE_HEAD = (
    "| run | step s (least, most) | CPU s | read GB | written GB | peak GB | pinned GB |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


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


def table_row(name: str, row: dict[str, Any]) -> str:
    """Under TABLE_HEAD; further cells may follow."""
    return (
        f"| {name} | {row['seconds']:.2f} ({row['seconds_min']:.2f}, {row['seconds_max']:.2f}) "
        f"| {row['cpu_seconds']:.2f} | {row['read_gb']:.2f} | {row['written_gb']:.2f} "
        f"| {row['peak_gb']:.2f} | {row['pinned_gb']:.3f} |"
    )


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
