"""What a stage of bench/gpu/run is given, and the rows of the report that it leaves, each as soon as it is known."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "bench"))

from turns import interval, quartiles


class Stage:
    """device: `cuda:0`, or `host:0`, a simulated one. swap: on the drive in question. work: for logs and programs."""

    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", required=True)
        for name in ("swap", "work", "rows"):
            parser.add_argument(f"--{name}", type=Path, required=True)
        parser.add_argument("--seconds", type=float, required=True)
        asked = parser.parse_args()
        self.device: str = asked.device
        self.swap: Path = asked.swap
        self.work: Path = asked.work
        self._rows: Path = asked.rows
        self._until: float = time.monotonic() + asked.seconds
        self._said: dict[str, list[str]] = {}

    def seconds_left(self) -> float:
        return self._until - time.monotonic()

    def row(self, figure: str, measured: str, goal: str = "", note: str = "") -> None:
        """One that was there is replaced."""
        self._said[figure] = [figure, measured, goal, note]
        print(f"   {figure}: {measured} {goal} {note}", flush=True)
        partial = self._rows.with_suffix(".partial")
        partial.write_text(json.dumps(list(self._said.values()), indent=1), encoding="utf-8")
        partial.replace(self._rows)  # whole: this process may be ended

    def median(
        self,
        figure: str,
        values: Sequence[float],
        unit: str = "",
        at_least: float | None = None,
        note: str = "",
    ) -> None:
        low, high = quartiles(values)
        ends = interval(values)
        measured = (
            f"{statistics.median(values):.3f} {unit}".strip() + f" (95 %: {ends[0]:.3f} to {ends[1]:.3f}; "
            f"quartiles {low:.3f} to {high:.3f}; {len(values)} pairs)"
        )
        self.row(figure, measured, "" if at_least is None else verdict(ends, at_least), note)


def verdict(ends: tuple[float, float], at_least: float) -> str:
    """`unclear` where the interval lies on both sides of the goal."""
    reached = [end >= at_least for end in ends]
    return f"at least {at_least:g}: {'met' if all(reached) else 'unclear' if any(reached) else '**missed**'}"
