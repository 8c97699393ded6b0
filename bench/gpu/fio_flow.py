"""fio as the measure of a drive: the same bytes, one after another, directly, in its best settings of a few."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from figure import NotRunError

TRIAL_BYTES = 512 << 20
ROUNDS = 2


@dataclass(frozen=True)
class Setting:
    engine: str
    block: str
    depth: int
    jobs: int = 1

    def __str__(self) -> str:
        return f"{self.engine}, {self.block}, {self.depth * self.jobs} at once"


# The last is for kernels that have neither of the others.
SETTINGS = (
    Setting("io_uring", "1M", 32),
    Setting("io_uring", "4M", 16),
    Setting("libaio", "1M", 32),
    Setting("libaio", "4M", 16),
    Setting("psync", "1M", 1, 8),
)


@dataclass(frozen=True)
class Leg:
    bytes_moved: int
    seconds: float
    cpu_seconds: float

    @property
    def bandwidth(self) -> float:
        return self.bytes_moved / self.seconds


class FioFlow:
    """A file of `file_bytes` in `directory`, removed by close()."""

    def __init__(self, directory: Path, file_bytes: int) -> None:
        found = shutil.which("fio")
        if found is None:
            raise NotRunError("there is no fio here, neither installed nor carried along")
        self._fio = found
        self._file = directory / "fio.data"
        self._file_bytes = file_bytes - file_bytes % (8 * 4096 * 1024)
        self.best: dict[str, Setting] = {}
        self._refused: list[str] = []

    def prepare(self) -> None:
        """Lays the file out."""
        for setting in SETTINGS:
            if self._run("write", setting, self._file_bytes, 1) is not None:
                return
        raise NotRunError(f"fio runs in no way here: {'; '.join(self._refused[:2])}")

    def choose(self, direction: str) -> Setting:
        """The fastest of the settings in rounds of short trials."""
        size = min(TRIAL_BYTES, self._file_bytes)
        speeds: dict[Setting, list[float]] = {}
        for _ in range(ROUNDS):
            for setting in SETTINGS:
                leg = self._run(direction, setting, size, 1)
                if leg is not None:
                    speeds.setdefault(setting, []).append(leg.bandwidth)
        if not speeds:
            raise NotRunError(f"fio runs in no way here: {'; '.join(self._refused[:2])}")
        self.best[direction] = max(speeds, key=lambda setting: statistics.median(speeds[setting]))
        return self.best[direction]

    def leg(self, direction: str, passes: int) -> Leg:
        leg = self._run(direction, self.best[direction], self._file_bytes, passes)
        if leg is None:
            raise NotRunError(f"fio failed: {self._refused[-1]}")
        return leg

    def close(self) -> None:
        self._file.unlink(missing_ok=True)

    def _run(self, direction: str, setting: Setting, size: int, passes: int) -> Leg | None:
        share = size // setting.jobs
        command = [
            self._fio, "--name=flow", f"--filename={self._file}", f"--rw={direction}", "--direct=1",
            f"--ioengine={setting.engine}", f"--bs={setting.block}", f"--iodepth={setting.depth}", f"--size={share}",
            f"--numjobs={setting.jobs}", f"--offset_increment={share}", f"--loops={passes}", "--group_reporting",
            "--thread", "--output-format=json", "--invalidate=0", "--fallocate=none",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            self._refused.append(f"{setting}: {said.splitlines()[0] if said else f'status {done.returncode}'}")
            return None
        return read(done.stdout, direction)


def read(report: str, direction: str) -> Leg:
    """Of fio's JSON, before which it may print notes. CPU is told in percent of each job's run time."""
    job = json.loads(report[report.index("{") :])["jobs"][0]
    flow = job[direction]
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    # job_runtime is the sum over grouped jobs, a direction's runtime is not.
    return Leg(flow["io_bytes"], flow["runtime"] / 1000, cpu)
