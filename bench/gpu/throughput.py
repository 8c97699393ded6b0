"""A model's tensors between drive and device, in turns with fio on the same drive: bandwidth and CPU.

What a pass can reach is the lesser of the drive's bandwidth (fio's, in the run beside it) and that of a copy between
pinned memory and the device (measured beside it too). Tensors are those of Qwen3-0.6B.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import torch
from stage import ROOT, Stage
from swap_device import DeviceEngine, simulated, synchronize, torch_device
from turns import abba

INVENTORY = ROOT / "bench" / "data" / "inventories" / "qwen3-0.6b.json"
MAX_PINNED = 64 << 20
UNDER_WAY = 16  # tensors that the caller has asked for at once
RUN_SECONDS = 1.5
PAIRS = 12
REHEARSAL_BYTES = 300 << 20
COPY_BYTES = 256 << 20
TRIAL_BYTES = 512 << 20
ROUNDS = 2


class Setting(NamedTuple):
    """Of fio. The last is for kernels that have none of the others' engines."""

    engine: str
    mib: int  # a request
    depth: int
    jobs: int = 1


SETTINGS = (
    Setting("io_uring", 1, 32),
    Setting("io_uring", 4, 16),
    Setting("libaio", 1, 32),
    Setting("libaio", 4, 16),
    Setting("psync", 1, 1, 8),
)


class OurRun(NamedTuple):
    bandwidth: float
    caller_cost: float  # CPU seconds a GB
    process_cost: float
    copy_bandwidth: float
    seconds: float


class FioRun(NamedTuple):
    bandwidth: float
    cost: float


class ModelFlow:
    """The tensors on the device, and an engine that has a copy of each on the drive."""

    def __init__(self, stage: Stage, engine: DeviceEngine) -> None:
        self._device = stage.device
        self._engine = engine
        self._tensors = {}
        budget = REHEARSAL_BYTES if simulated(stage.device) else math.inf
        for entry in sorted(json.loads(INVENTORY.read_text())["tensors"], key=lambda one: "embed" in one["name"]):
            elements = math.prod(entry["shape"])
            if 2 * elements <= budget:
                budget -= 2 * elements
                target = torch.empty(elements, dtype=torch.bfloat16, device=torch_device(stage.device))
                self._tensors[entry["name"]] = target.normal_()
        self.bytes_a_pass = sum(tensor.nbytes for tensor in self._tensors.values())

    def run(self, direction: str, passes: int) -> OurRun:
        reads = direction == "read"
        begin = self._engine.get_async if reads else self._engine.put_async
        copy = copy_bandwidth(self._device, to_device=reads)
        synchronize(self._device)
        wall, caller, process = time.monotonic(), time.thread_time(), time.process_time()
        for _ in range(passes):
            if reads:
                self._engine.prefetch(self._tensors)
            under_way: deque[Any] = deque()
            for name, tensor in self._tensors.items():
                under_way.append(begin(name, tensor))
                if len(under_way) == UNDER_WAY:
                    under_way.popleft().result()
            while under_way:
                under_way.popleft().result()
        self._engine.flush()
        synchronize(self._device)
        seconds, gigabytes = time.monotonic() - wall, passes * self.bytes_a_pass / 1e9
        caller, process = time.thread_time() - caller, time.process_time() - process
        return OurRun(gigabytes / seconds, caller / gigabytes, process / gigabytes, copy, seconds)


def copy_bandwidth(device: str, to_device: bool) -> float:
    """GB/s of copies between pinned memory and the device; on a simulated one, in the host's memory."""
    pinned = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=not simulated(device))
    other = torch.empty(COPY_BYTES, dtype=torch.uint8, device=torch_device(device))
    target, source = (other, pinned) if to_device else (pinned, other)
    target.copy_(source)
    synchronize(device)
    begun = time.monotonic()
    for _ in range(4):
        target.copy_(source, non_blocking=True)
    synchronize(device)
    return 4 * COPY_BYTES / (time.monotonic() - begun) / 1e9


def run_fio(file: Path, direction: str, setting: Setting, size: int, passes: int) -> FioRun:
    share = size // setting.jobs >> 22 << 22
    command = [
        "fio", "--name=flow", f"--filename={file}", f"--rw={direction}", "--direct=1", f"--ioengine={setting.engine}",
        f"--bs={setting.mib}M", f"--iodepth={setting.depth}", f"--size={share}", f"--numjobs={setting.jobs}",
        f"--offset_increment={share}", f"--loops={passes}", "--group_reporting", "--thread", "--output-format=json",
        "--invalidate=0", "--fallocate=none",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return read_fio(done.stdout, direction)


def read_fio(report: str, direction: str) -> FioRun:
    """Of fio's JSON, before which it may print notes. CPU is a percentage of each job's run time."""
    job = json.loads(report[report.index("{") :])["jobs"][0]
    gigabytes = job[direction]["io_bytes"] / 1e9
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    # job_runtime is the sum over grouped jobs, a direction's runtime is not.
    return FioRun(gigabytes / job[direction]["runtime"] * 1000, cpu / gigabytes)


def fastest_setting(file: Path, direction: str, size: int) -> Setting:
    """In rounds of short trials."""
    speeds: dict[Setting, list[float]] = {}
    for setting in ROUNDS * SETTINGS:
        try:
            speeds.setdefault(setting, []).append(run_fio(file, direction, setting, size, 1).bandwidth)
        except subprocess.CalledProcessError as refused:
            print(f"fio, {setting}: {refused.stderr}", flush=True)
            speeds.pop(setting, None)
    if not speeds:
        raise SystemExit("Error: fio runs in no way here")
    return max(speeds, key=lambda setting: statistics.median(speeds[setting]))


def report(stage: Stage, direction: str, pairs: list[tuple[OurRun, FioRun]], setting: Setting) -> None:
    what = "drive to device" if direction == "read" else "device to drive"
    speeds = {
        "ours": [ours.bandwidth for ours, _ in pairs],
        "fio's": [theirs.bandwidth for _, theirs in pairs],
        "pinned copy's": [ours.copy_bandwidth for ours, _ in pairs],
    }
    said = ", ".join(f"{whose} {statistics.median(values):.2f}" for whose, values in speeds.items())
    ratios = [ours.bandwidth / min(theirs.bandwidth, ours.copy_bandwidth) for ours, theirs in pairs]
    note = f"GB/s: {said}; fio: {setting.engine}, {setting.depth * setting.jobs} requests of {setting.mib} MiB"
    stage.median(f"{what}: bandwidth over the lesser of fio's and a pinned copy's", ratios, "", 0.95, note)
    stage.median(f"{what}: CPU of the calling thread", [ours.caller_cost for ours, _ in pairs], "s a GB")
    stage.median(f"{what}: CPU of the process", [ours.process_cost for ours, _ in pairs], "s a GB")
    costs = [ours.process_cost / theirs.cost for ours, theirs in pairs if theirs.cost > 0]
    if costs:
        stage.median(f"{what}: CPU of the process a byte over fio's", costs)


def take_turns(
    stage: Stage, flow: ModelFlow, file: Path, direction: str, setting: Setting, leave: float
) -> list[tuple[OurRun, FioRun]]:
    """Until so many seconds are left."""
    flow.run(direction, 1)
    passes = max(1, min(16, math.ceil(RUN_SECONDS / flow.run(direction, 1).seconds)))
    return abba(
        lambda: flow.run(direction, passes),
        lambda: run_fio(file, direction, setting, flow.bytes_a_pass, passes),
        PAIRS,
        lambda: stage.seconds_left() < leave,
    )


def main() -> None:
    stage = Stage()
    file = stage.swap / "fio.data"
    with DeviceEngine(stage.device, stage.swap, MAX_PINNED) as engine:
        flow = ModelFlow(stage, engine)
        trial_bytes = min(TRIAL_BYTES, flow.bytes_a_pass)
        best = {"write": fastest_setting(file, "write", trial_bytes)}
        run_fio(file, "write", best["write"], flow.bytes_a_pass, 1)
        best["read"] = fastest_setting(file, "read", trial_bytes)
        flow.run("write", 1)  # what is read must be there
        for direction, share in (("read", 0.55), ("write", 1.0)):
            leave = stage.seconds_left() * (1 - share) + 2.0
            pairs = take_turns(stage, flow, file, direction, best[direction], leave)
            report(stage, direction, pairs, best[direction])


if __name__ == "__main__":
    main()
