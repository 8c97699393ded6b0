"""How much host memory an engine registers for a device, against what it was asked to."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import swap_device
from measurement import Measurement

MIB = 1 << 20
BUDGETS = {"open_64m": 64 * MIB, "open_1g": 1024 * MIB}
PROGRAM = Path(__file__).resolve().parents[2] / "build" / "gpu" / "native" / "bench" / "micro" / "pinning_cost"


def measure(measurement: Measurement) -> None:
    swap_device.require(measurement.device)
    register(measurement)
    counted: dict[int, int] = {}
    kernel: dict[int, int] = {}
    for key, budget in BUDGETS.items():
        seconds, counted[budget], kernel[budget] = open_and_use(measurement, budget)
        measurement.tell(key, seconds, note="drive's files are made in it too")
    if not all(counted.values()):
        measurement.not_run("counted", "the engine says that it has pinned nothing")
    else:
        measurement.tell("counted", max(held / budget for budget, held in counted.items()), note=_held(counted))
    if not any(kernel.values()):
        measurement.not_run("kernel", "VmPin and VmLck of this process did not move: its kernel counts neither")
        return
    measurement.tell("kernel", max(held / budget for budget, held in kernel.items()), note=_held(kernel))


def register(measurement: Measurement) -> None:
    """What bench/micro/pinning_cost says of registering alone."""
    sizes = {"register_64m": 64 * MIB, "register_1g": 1024 * MIB}
    command = [str(PROGRAM), measurement.device, *map(str, sizes.values())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=measurement.seconds_left())
    except (OSError, subprocess.TimeoutExpired) as failed:
        for key in sizes:
            measurement.not_run(key, str(failed))
        return
    told = [json.loads(line) for line in done.stdout.splitlines()]
    for (key, _), line in zip(sizes.items(), told, strict=False):
        if "pin_ms" not in line["device"]:
            measurement.not_run(key, line["device"]["reason"])
            continue
        both = {who: line[who].get("pin_ms") for who in ("ring", "both")}
        measurement.tell(key, line["device"]["pin_ms"], note=f"with the ring alone and with both: {both}")
    for key in list(sizes)[len(told) :]:
        measurement.not_run(key, done.stderr.strip() or f"pinning_cost ended with status {done.returncode}")


def open_and_use(measurement: Measurement, budget: int) -> tuple[float, int, int]:
    """Seconds until a tensor has come back, bytes pinned as the engine counts, and as the kernel does."""
    import torch

    device = measurement.device
    tensor = torch.ones(24 * MIB + 1, dtype=torch.bfloat16, device=swap_device.torch_device(device))
    swap_device.synchronize(device)
    before, begun = pinned_by_kernel(), time.monotonic()
    with swap_device.DeviceEngine(device, measurement.swap, budget) as engine:
        engine.put("tensor", tensor)
        engine.get("tensor", tensor)
        seconds = time.monotonic() - begun
        return seconds, swap_device.pinned_bytes(engine.stats()), pinned_by_kernel() - before


def pinned_by_kernel() -> int:
    """VmPin and VmLck of this process. Memory that an NVIDIA driver has pinned is in neither."""
    held = 0
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(("VmPin:", "VmLck:")):
            held += int(line.split()[1]) * 1024
    return held


def _held(bytes_by_budget: dict[int, int]) -> str:
    return ", ".join(f"{held / MIB:.2f} MiB of {budget // MIB}" for budget, held in bytes_by_budget.items())
