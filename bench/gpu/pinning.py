"""How much host memory an engine registers for a device, against what it was asked to."""

from __future__ import annotations

import time
from pathlib import Path

import swap_device
from measurement import Measurement

MIB = 1 << 20
BUDGETS = {"open_64m": 64 * MIB, "open_1g": 1024 * MIB}
NO_DOOR = "the Python package has no door to registering alone; opening is told above"


def measure(measurement: Measurement) -> None:
    swap_device.require(measurement.device)
    for key in ("register_64m", "register_1g"):
        measurement.not_run(key, NO_DOOR)
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
