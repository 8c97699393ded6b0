"""Tensors from the device to the drive and back, compared on the device, bit by bit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from stage import Stage
from swap_device import DeviceEngine, simulated, synchronize, through_device, torch_device

MIB = 1 << 20
MAX_PINNED = 64 * MIB
# Elements: around blocks and pages, primes, and what fills several chunks but not the last.
ODD = (1, 3, 127, 1021, 2047, 2048, 2049, 4097, 65_537, 262_144, 1_048_583, 2 * MIB + 5, 7_340_033)
LARGE_BYTES = (80 * MIB + 4, 3 * MAX_PINNED + 4092)
BF16, F32 = torch.bfloat16, torch.float32
Outcome = tuple[str, bool, int]  # what, whether it came back equal, bytes


class Trial:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._device = stage.device
        self._torch_device = torch_device(stage.device)
        self._seeded = torch.Generator(device=self._torch_device)
        self._seeded.manual_seed(1)
        self._engine: DeviceEngine
        self._names = 0

    def count(self, figure: str, outcomes: Iterable[Outcome]) -> None:
        """How many of the trials came out equal, with an engine of their own; what came out otherwise is said."""
        equal, wrong, stored = 0, [], 0
        with DeviceEngine(self._device, self._stage.swap, MAX_PINNED) as self._engine:
            for what, is_equal, size in outcomes:
                equal += is_equal
                stored += size
                if not is_equal:
                    wrong.append(what)
            through = through_device(self._engine.stats())
        notes = [f"**different: {', '.join(wrong[:8])}**"] if wrong else []
        notes.append(f"{stored / 1e9:.2f} GB stored; {through:.2f} GB over the device")
        self._stage.row(f"{figure}: equal", f"{equal} of {equal + len(wrong)} tensors", "", "; ".join(notes))

    def same_type(self, dtype: torch.dtype, elements: int) -> Outcome:
        before = self._random(dtype, elements)
        after = torch.zeros_like(before)
        self._engine.get_async(self._put(before), after).result()
        return f"{elements} x {dtype}", self._equal(after, before), before.nbytes

    def read_converted(self, stored: torch.dtype, wanted: torch.dtype, elements: int) -> Outcome:
        before = self._random(stored, elements)
        after = torch.zeros(elements, dtype=wanted, device=before.device)
        self._engine.get_async(self._put(before), after, convert=True).result()
        return f"{elements} x {stored} as {wanted}", self._equal(after, before.to(wanted)), before.nbytes

    def write_converted(self, stored: torch.dtype, given: torch.dtype, elements: int) -> Outcome:
        """The name has its type from its first content; the second comes in another."""
        name = self._put(self._random(stored, elements))
        before = self._random(given, elements)
        self._engine.put(name, before, convert=True)
        after = torch.zeros(elements, dtype=stored, device=before.device)
        self._engine.get_async(name, after).result()
        return f"{elements} x {given} into {stored}", self._equal(after, before.to(stored)), after.nbytes

    def behind_work(self) -> Outcome:
        """A put that does not wait for the stream would store what was there before."""
        target = torch.zeros(8192, 8192, dtype=BF16, device=self._torch_device)
        product, after = torch.empty_like(target), torch.empty_like(target)
        factor = torch.randn(8192, 8192, dtype=BF16, device=target.device, generator=self._seeded)
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
            for _ in range(40):  # tens of milliseconds, and only then the content
                torch.mm(factor, factor, out=product)
            target.copy_(product)
            self._engine.get_async(self._put(target), after).result()
            equal = self._equal(after, target)
        return "a product of matrices", equal and bool(target.any()), target.nbytes

    def _put(self, tensor: torch.Tensor) -> str:
        self._names += 1
        self._engine.put(f"tensor.{self._names}", tensor)
        return f"tensor.{self._names}"

    def _random(self, dtype: torch.dtype, elements: int) -> torch.Tensor:
        """Of all magnitudes that both types have as normal numbers; every other mantissa, so that conversion rounds."""
        mantissa = torch.randn(elements, device=self._torch_device, generator=self._seeded)
        exponent = torch.randint(-60, 60, (elements,), device=self._torch_device, generator=self._seeded)
        values = torch.ldexp(mantissa, exponent)
        values[:: max(2, math.isqrt(elements))] = 0.0
        return values.to(dtype)

    def _equal(self, after: torch.Tensor, before: torch.Tensor) -> bool:
        """Bits, on the device: -0.0 is not 0.0."""
        synchronize(self._device)
        bits: Any = {2: torch.int16, 4: torch.int32}[before.dtype.itemsize]
        return torch.equal(after.view(bits), before.view(bits))


def main() -> None:
    stage = Stage()
    trial = Trial(stage)
    pairs, sizes = ((F32, BF16), (BF16, F32)), (*ODD, LARGE_BYTES[1] // 4)
    trial.count("bf16 and f32 of odd sizes", (trial.same_type(dtype, n) for dtype in (BF16, F32) for n in ODD))
    large = ((dtype, size // dtype.itemsize) for dtype in (BF16, F32) for size in LARGE_BYTES)
    trial.count("larger than the staging memory", (trial.same_type(*each) for each in large))
    trial.count(
        "converted while read, f32 to bf16 and back", (trial.read_converted(*p, n) for p in pairs for n in sizes)
    )
    trial.count(
        "converted while written, f32 to bf16 and back", (trial.write_converted(*p, n) for p in pairs for n in sizes)
    )
    if not simulated(stage.device):
        trial.count("put behind unfinished work of a stream", (trial.behind_work() for _ in range(1)))


if __name__ == "__main__":
    main()
