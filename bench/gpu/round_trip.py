"""Tensors from the device to the drive and back, compared on the device, bit by bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import swap_device
from figure import NotRunError
from measurement import Measurement

MIB = 1 << 20
MAX_PINNED = 64 * MIB
# Elements: around blocks and pages, primes, and what fills several chunks but not the last.
ODD = (1, 3, 127, 1021, 2047, 2048, 2049, 4097, 65_537, 262_144, 1_048_583, 2 * MIB + 5, 7_340_033)
LARGE_BYTES = (80 * MIB + 4, 3 * MAX_PINNED + 4092)


def measure(measurement: Measurement) -> None:
    swap_device.require(measurement.device)
    import torch

    seeded = torch.Generator(device=swap_device.torch_device(measurement.device))
    seeded.manual_seed(1)
    trial = Trial(measurement, torch, seeded)
    same = (trial.same_type(dtype, elements) for dtype in (torch.bfloat16, torch.float32) for elements in ODD)
    trial.count("same_type", same)
    trial.count("larger", (trial.same_type(dtype, size) for dtype, size in trial.large()))
    pairs = ((torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32))
    sizes = (*ODD, LARGE_BYTES[1] // 4)
    trial.count("reads_converted", (trial.read_converted(*types, elements) for types in pairs for elements in sizes))
    trial.count("writes_converted", (trial.write_converted(*types, elements) for types in pairs for elements in sizes))
    trial.count("stream", (trial.behind_work() for _ in range(1)))


class Trial:
    """One engine for each figure, so that a failing one spoils no other."""

    def __init__(self, measurement: Measurement, torch: Any, seeded: Any) -> None:
        self._measurement = measurement
        self._device = measurement.device
        self._torch = torch
        self._seeded = seeded
        self._engine: swap_device.DeviceEngine | None = None
        self._names = 0

    def count(self, key: str, trials: Any) -> None:
        """How many of the trials came out equal; what came out otherwise is said."""
        equal, wrong, bytes_moved = 0, [], 0
        try:
            with swap_device.DeviceEngine(self._device, self._measurement.swap, MAX_PINNED) as self._engine:
                for what, is_equal, size in trials:
                    equal += is_equal
                    bytes_moved += size
                    if not is_equal:
                        wrong.append(what)
                through = swap_device.through_device(self._engine.stats())
        except NotRunError as absent:
            self._measurement.not_run(key, str(absent))
            return
        notes = [f"**different: {', '.join(wrong[:8])}**"] if wrong else []
        notes.append(f"{bytes_moved / 1e9:.2f} GB stored")
        if through is not None:
            notes.append(f"{through / 1e9:.2f} GB over the device")
        self._measurement.tell(key, f"{equal} of {equal + len(wrong)}", note="; ".join(notes))

    def large(self) -> list[tuple[Any, int]]:
        torch = self._torch
        return [(dtype, size // dtype.itemsize) for dtype in (torch.bfloat16, torch.float32) for size in LARGE_BYTES]

    def same_type(self, dtype: Any, elements: int) -> tuple[str, bool, int]:
        before = self._random(dtype, elements)
        name = self._put(before)
        after = self._torch.zeros_like(before)
        self._require_engine().get(name, after)
        return f"{elements} x {dtype}", self._equal(after, before), before.nbytes

    def read_converted(self, stored: Any, wanted: Any, elements: int) -> tuple[str, bool, int]:
        before = self._random(stored, elements)
        name = self._put(before)
        after = self._torch.zeros(elements, dtype=wanted, device=before.device)
        self._asked(lambda: self._require_engine().get(name, after, convert=True))
        return f"{elements} x {stored} as {wanted}", self._equal(after, before.to(wanted)), before.nbytes

    def write_converted(self, stored: Any, given: Any, elements: int) -> tuple[str, bool, int]:
        """The name has its type from its first content; the second comes in another."""
        name = self._put(self._random(stored, elements))
        before = self._random(given, elements)
        self._asked(lambda: self._require_engine().put(name, before, convert=True))
        after = self._torch.zeros(elements, dtype=stored, device=before.device)
        self._require_engine().get(name, after)
        return f"{elements} x {given} into {stored}", self._equal(after, before.to(stored)), after.nbytes

    def behind_work(self) -> tuple[str, bool, int]:
        """A put that does not wait for the stream would store what was there before."""
        if swap_device.simulated(self._device):
            raise NotRunError("a simulated device has no streams of torch")
        torch, side = self._torch, self._torch.cuda.Stream()
        target = torch.zeros(8192, 8192, dtype=torch.bfloat16, device=swap_device.torch_device(self._device))
        product = torch.empty_like(target)
        factor = torch.randn(8192, 8192, dtype=torch.bfloat16, device=target.device, generator=self._seeded)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for _ in range(40):  # tens of milliseconds, and only then the content
                torch.mm(factor, factor, out=product)
            target.copy_(product)
            name = self._put(target)
            after = torch.empty_like(target)
            self._require_engine().get(name, after)
            equal = self._equal(after, target)
        return "a product of matrices", equal and bool(target.any()), target.nbytes

    def _require_engine(self) -> swap_device.DeviceEngine:
        if self._engine is None:
            raise RuntimeError("no engine is open")
        return self._engine

    def _put(self, tensor: Any) -> str:
        self._names += 1
        self._require_engine().put(f"tensor.{self._names}", tensor)
        return f"tensor.{self._names}"

    def _asked(self, call: Callable[[], None]) -> None:
        try:
            call()
        except TypeError as error:
            raise NotRunError(f"this penstock does not convert: {error}") from None

    def _random(self, dtype: Any, elements: int) -> Any:
        """Of all magnitudes that both types have as normal numbers; every other mantissa, so that conversion rounds."""
        torch = self._torch
        device = swap_device.torch_device(self._device)
        mantissa = torch.randn(elements, device=device, generator=self._seeded)
        exponent = torch.randint(-60, 60, (elements,), device=device, generator=self._seeded)
        values = torch.ldexp(mantissa, exponent)
        values[:: max(2, math.isqrt(elements))] = 0.0
        return values.to(dtype)

    def _equal(self, after: Any, before: Any) -> bool:
        """Bits, on the device: -0.0 is not 0.0."""
        swap_device.synchronize(self._device)
        bits = {2: self._torch.int16, 4: self._torch.int32}[before.dtype.itemsize]
        return bool(self._torch.equal(after.view(bits), before.view(bits)))
