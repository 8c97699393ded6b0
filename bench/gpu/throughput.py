"""A model's tensors between drive and device, in turns with fio on the same drive: bandwidth and CPU.

What a pass can reach is the lesser of the drive's bandwidth (fio's, in the leg beside it) and that of a copy between
pinned memory and the device (measured beside it too). Tensors are those of Qwen3-0.6B.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import swap_device
from fio_flow import FioFlow
from fio_flow import Leg as FioLeg
from measurement import Measurement
from paired_ratio import abba, interval, quartiles

INVENTORY = Path(__file__).resolve().parents[1] / "data" / "inventories" / "qwen3-0.6b.json"
MAX_PINNED = 64 << 20
UNDER_WAY = 16  # tensors that the caller has asked for at once
LEG_SECONDS = 1.5
PAIRS = 12
LEAST_PAIRS = 10
REHEARSAL_BYTES = 300 << 20
COPY_BYTES = 256 << 20


@dataclass(frozen=True)
class Leg:
    """Ours: what went through, and what it cost whom."""

    bytes_moved: int
    seconds: float
    caller_seconds: float
    process_seconds: float
    copy_bandwidth: float


class ModelFlow:
    """The tensors on the device, and an engine that has a copy of each on the drive."""

    def __init__(self, device: str, swap: Path) -> None:
        import torch

        self._device = device
        self._tensors = {}
        budget = REHEARSAL_BYTES if swap_device.simulated(device) else math.inf
        for entry in sorted(json.loads(INVENTORY.read_text())["tensors"], key=lambda one: "embed" in one["name"]):
            elements = math.prod(entry["shape"])
            if 2 * elements > budget:
                continue
            budget -= 2 * elements
            target = torch.empty(elements, dtype=torch.bfloat16, device=swap_device.torch_device(device))
            self._tensors[entry["name"]] = target.normal_()
        self.bytes_a_pass = sum(tensor.nbytes for tensor in self._tensors.values())
        self._engine = swap_device.DeviceEngine(device, swap, MAX_PINNED)

    def read(self, passes: int) -> Leg:
        return self._leg(passes, lambda name: self._engine.get_async(name, self._tensors[name]), ahead=True)

    def write(self, passes: int) -> Leg:
        return self._leg(passes, lambda name: self._engine.put_async(name, self._tensors[name]), ahead=False)

    def stats(self) -> dict[str, int]:
        return self._engine.stats()

    def close(self) -> None:
        self._engine.close()

    def _leg(self, passes: int, begin: Callable[[str], Any], ahead: bool) -> Leg:
        copy = copy_bandwidth(self._device, to_device=ahead)
        swap_device.synchronize(self._device)
        wall, caller, process = time.monotonic(), time.thread_time(), time.process_time()
        for _ in range(passes):
            if ahead:
                self._engine.prefetch(self._tensors)
            under_way: deque[Any] = deque()
            for name in self._tensors:
                under_way.append(begin(name))
                if len(under_way) == UNDER_WAY:
                    under_way.popleft().result()
            while under_way:
                under_way.popleft().result()
        self._engine.flush()
        swap_device.synchronize(self._device)
        return Leg(
            passes * self.bytes_a_pass,
            time.monotonic() - wall,
            time.thread_time() - caller,
            time.process_time() - process,
            copy,
        )


def copy_bandwidth(device: str, to_device: bool) -> float:
    """Of four copies between pinned memory and the device; on a simulated one, of a copy in the host's memory."""
    import torch

    pinned = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=not swap_device.simulated(device))
    other = torch.empty(COPY_BYTES, dtype=torch.uint8, device=swap_device.torch_device(device))
    target, source = (other, pinned) if to_device else (pinned, other)
    target.copy_(source)
    swap_device.synchronize(device)
    begun = time.monotonic()
    for _ in range(4):
        target.copy_(source, non_blocking=True)
    swap_device.synchronize(device)
    return 4 * COPY_BYTES / (time.monotonic() - begun)


def measure(measurement: Measurement) -> None:
    swap_device.require(measurement.device)
    flow = ModelFlow(measurement.device, measurement.swap)
    fio = FioFlow(measurement.swap, flow.bytes_a_pass)
    try:
        fio.prepare()
        flow.write(1)  # what is read must be there
        for direction, ours, share in (("read", flow.read, 0.55), ("write", flow.write, 1.0)):
            until = measurement.seconds_left() * (1 - share)
            fio.choose(direction)
            compare(measurement, direction, ours, fio, until + 2.0)
    finally:
        fio.close()
        flow.close()


def compare(
    measurement: Measurement, direction: str, ours: Callable[[int], Leg], fio: FioFlow, leave_seconds: float
) -> None:
    """Ends when so many seconds are left, with the pairs that it has."""
    ours(1)
    passes = max(1, min(16, math.ceil(LEG_SECONDS / ours(1).seconds)))
    pairs = abba(
        lambda: ours(passes),
        lambda: fio.leg(direction, passes),
        PAIRS,
        lambda: measurement.seconds_left() < leave_seconds,
    )
    if not pairs:
        for key in ("ratio", "caller_cpu", "process_cpu", "cpu_ratio"):
            measurement.not_run(f"{direction}_{key}", "the stage's time was over before the first pair of legs")
        return
    tell(measurement, direction, pairs, str(fio.best[direction]))


def tell(measurement: Measurement, direction: str, pairs: list[tuple[Leg, FioLeg]], setting: str) -> None:
    """Bandwidths stand beside the ratio only."""
    bounds = [min(theirs.bandwidth, ours.copy_bandwidth) for ours, theirs in pairs]
    ratios = [ours.bytes_moved / ours.seconds / bound for (ours, _), bound in zip(pairs, bounds, strict=True)]
    by_drive = sum(theirs.bandwidth <= ours.copy_bandwidth for ours, theirs in pairs)
    speeds = {
        "ours": [ours.bytes_moved / ours.seconds for ours, _ in pairs],
        "fio's": [theirs.bandwidth for _, theirs in pairs],
        "pinned copy's": [ours.copy_bandwidth for ours, _ in pairs],
    }
    said = ", ".join(f"{whose} {statistics.median(values) / 1e9:.2f}" for whose, values in speeds.items())
    few = f"; only {len(pairs)} pairs in the time there was" if len(pairs) < LEAST_PAIRS else ""
    note = f"the drive is the bound in {by_drive} of {len(pairs)}; GB/s, for the reader: {said}; fio: {setting}{few}"
    tell_median(measurement, f"{direction}_ratio", ratios, note)
    for key, costs in (
        ("caller_cpu", [ours.caller_seconds / ours.bytes_moved * 1e9 for ours, _ in pairs]),
        ("process_cpu", [ours.process_seconds / ours.bytes_moved * 1e9 for ours, _ in pairs]),
    ):
        tell_median(measurement, f"{direction}_{key}", costs)
    shares = [
        (ours.process_seconds / ours.bytes_moved) / (theirs.cpu_seconds / theirs.bytes_moved)
        for ours, theirs in pairs
        if theirs.cpu_seconds > 0
    ]
    if not shares:
        measurement.not_run(f"{direction}_cpu_ratio", "fio told no CPU time")
        return
    tell_median(measurement, f"{direction}_cpu_ratio", shares)


def tell_median(measurement: Measurement, key: str, values: list[float], note: str = "") -> None:
    spread, middle = quartiles(values), statistics.median(values)
    measurement.tell(key, middle, interval=interval(values), quartiles=spread, pairs=len(values), note=note)
