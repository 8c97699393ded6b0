"""What only an accelerator can show: every figure that bench/gpu/run is after, and what became of one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A line of the report. `at_least` or `at_most` is the goal, where there is one."""

    key: str
    title: str
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What was measured, or why it was not; one of `value` and `reason` is None.

    interval: 95 % of the median by bootstrap. note: what must be known beside the figure.
    """

    value: float | str | None = None
    reason: str | None = None
    interval: tuple[float, float] | None = None
    quartiles: tuple[float, float] | None = None
    pairs: int | None = None
    note: str = ""

    def document(self) -> dict[str, Any]:
        """Of `not_run`, or `value` and what was said with it."""
        if self.value is None:
            return {"not_run": self.reason}
        said = {key: value for key, value in asdict(self).items() if key != "reason" and value not in (None, "")}
        return said

    @staticmethod
    def read(document: dict[str, Any]) -> Outcome:
        known = {field.name for field in fields(Outcome)}
        said: dict[str, Any] = {key: tuple(told) if isinstance(told, list) else told for key, told in document.items()}
        return Outcome(**{"reason": said.get("not_run"), **{key: said[key] for key in known & said.keys()}})


class NotRunError(Exception):
    """Something that a stage needs is not here: its text is the reason that the report gives."""


def _flow(direction: str, what: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{direction}_ratio", f"{what}: bandwidth over the lesser of fio's and a pinned copy's", at_least=0.95),
        Figure(f"{direction}_caller_cpu", f"{what}: CPU of the calling thread", "s a GB"),
        Figure(f"{direction}_process_cpu", f"{what}: CPU of the process", "s a GB"),
        Figure(f"{direction}_cpu_ratio", f"{what}: CPU of the process a byte over fio's"),
    )


STAGES: dict[str, tuple[Figure, ...]] = {
    "contract": (
        Figure("device", "the device's contract (C++)", "tests"),
        Figure("staging", "staging between drive and device (C++)", "tests"),
    ),
    "round_trip": (
        Figure("same_type", "bf16 and f32 of odd sizes, device to drive and back: equal on the device", "tensors"),
        Figure("larger", "tensors larger than the staging memory: equal on the device", "tensors"),
        Figure("reads_converted", "converted while read, f32 to bf16 and back: as the device converts", "tensors"),
        Figure("writes_converted", "converted while written, f32 to bf16 and back: as the device converts", "tensors"),
        Figure("stream", "put behind unfinished work of a stream: the work's result is stored", "tensors"),
    ),
    "throughput": (*_flow("read", "drive to device"), *_flow("write", "device to drive")),
    "pinning": (
        Figure("counted", "pinned as the engine counts, over what was asked", at_most=1.005),
        Figure("kernel", "pinned as the kernel counts (VmPin and VmLck), over what was asked", at_most=1.005),
        Figure("open_64m", "opening and first transfer with 64 MiB pinned", "s"),
        Figure("open_1g", "opening and first transfer with 1 GiB pinned", "s"),
        Figure("register_64m", "registering 64 MiB with the device", "ms"),
        Figure("register_1g", "registering 1 GiB with the device", "ms"),
    ),
    "training": (
        Figure("equal_penstock", "losses with penstock equal to `device: cpu`, all digits", "steps"),
        Figure("equal_stock", "losses with DeepSpeed's own NVMe offload equal to `device: cpu`, all digits", "steps"),
        Figure("equal_none", "losses without offload equal to `device: cpu`, all digits", "steps"),
        Figure("step_over_stock", "step's time, penstock over DeepSpeed's own NVMe offload"),
        Figure("step_over_cpu", "step's time, penstock over `device: cpu`"),
        Figure("stock_over_cpu", "step's time, DeepSpeed's own NVMe offload over `device: cpu`"),
        Figure("stall_share", "share of the steps that penstock's callers waited"),
        Figure(
            "device_path", "bytes that went between drive and device without a pass through tensors on the host", "GB"
        ),
        Figure("pinned_penstock", "host memory pinned with penstock", "GB"),
        Figure("pinned_stock", "host memory pinned with DeepSpeed's own NVMe offload", "GB"),
    ),
}
