"""One stage at work, in a process of its own: what it is given, and the file that has its figures as soon as it does.

    python bench/gpu/measurement.py STAGE --device cuda:0 --swap DIR --work DIR --result FILE --seconds N

Run by gpu_job.py, which says why where this process ends before its time or is ended.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from figure import STAGES, NotRunError, Outcome

ROOT = Path(__file__).resolve().parents[2]


class Measurement:
    """device: `cuda:0`, or `host:0`, a simulated one. swap: on the drive in question. work: for logs and programs."""

    def __init__(self, stage: str, device: str, swap: Path, work: Path, result: Path, seconds: float) -> None:
        self.stage = stage
        self.device = device
        self.swap = swap
        self.work = work
        self._result = result
        self._until = time.monotonic() + seconds
        self._told: dict[str, Outcome] = {}
        self._keys = {figure.key for figure in STAGES[stage]}

    def tell(
        self,
        key: str,
        value: float | str,
        *,
        interval: tuple[float, float] | None = None,
        quartiles: tuple[float, float] | None = None,
        pairs: int | None = None,
        note: str = "",
    ) -> None:
        self._write(key, Outcome(value, None, interval, quartiles, pairs, note))

    def not_run(self, key: str, reason: str) -> None:
        """Paths of this machine's checkout are left out of the reason."""
        self._write(key, Outcome(reason=reason.replace(f"{ROOT}/", "")))

    def rest_not_run(self, reason: str) -> None:
        for figure in STAGES[self.stage]:
            if figure.key not in self._told:
                self.not_run(figure.key, reason)

    def seconds_left(self) -> float:
        return self._until - time.monotonic()

    def _write(self, key: str, outcome: Outcome) -> None:
        if key not in self._keys:
            raise KeyError(f"{self.stage} has no figure {key}")
        self._told[key] = outcome
        write_json(self._result, {one: told.document() for one, told in self._told.items()})
        said = f"not run: {outcome.reason}" if outcome.value is None else f"{outcome.value} {outcome.note}"
        print(f"   {key}: {said}", flush=True)


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Whole or not at all: a process that is ended in between leaves the last one."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=1), encoding="utf-8")
    os.replace(partial, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--device", required=True)
    for name in ("swap", "work", "result"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    asked = parser.parse_args()
    asked.swap.mkdir(parents=True, exist_ok=True)
    asked.work.mkdir(parents=True, exist_ok=True)
    measurement = Measurement(asked.stage, asked.device, asked.swap, asked.work, asked.result, asked.seconds)
    try:
        importlib.import_module(asked.stage).measure(measurement)
    except NotRunError as absent:
        measurement.rest_not_run(str(absent))
    except Exception as error:
        traceback.print_exc()
        measurement.rest_not_run(f"{type(error).__name__}: {error}")
        return 1
    measurement.rest_not_run("the stage ended without it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
