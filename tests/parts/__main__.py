"""Runs parts of the tests: see ./tests/run --help, which calls this where there is a Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

from catalogue import DEEP_RUN, PARTS, SHORT_RUN
from command import CACHE, ROOT
from part import Part
from report import HEAD, outcome_row, table
from run import FAULT_ROWS, LEFT_OUT, Run
from run_port import drop_noted


def chosen(arguments: list[str]) -> list[Part] | None:
    """The parts that these arguments name; None where one is unknown."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    unknown = set(names) - {part.name for part in PARTS}
    if unknown:
        print(
            f"tests/run: there is no part {' '.join(sorted(unknown))}; ./tests/run --list names them", file=sys.stderr
        )
        return None
    if names:
        return [part for part in PARTS if part.name in names]
    return list(PARTS if "--all" in arguments else SHORT_RUN)


def print_list() -> None:
    for title, parts in (("the short run:", SHORT_RUN), ("besides, with --all:", DEEP_RUN)):
        print(title)
        for part in parts:
            print(f"  {part.name.ljust(12)} {part.what}")


def set_up(parts: list[Part]) -> bool:
    """bench/setup.sh's, with what these parts need."""
    presets = {part.build.preset for part in parts if part.build}
    environment = {
        **os.environ,
        "with_presets": "penstock_short" if "release" in presets else "penstock_cli",
        "with_hip": "1",
        "with_clang": "1" if presets & {"asan-ubsan", "tsan"} or any(part.name == "fuzz" for part in parts) else "",
    }
    command = ["bash", "-c", "source bench/setup.sh && setup"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def print_outcomes(run: Run, set_up_seconds: float) -> None:
    rows = [HEAD, ("set-up", f"{set_up_seconds:.0f}", *[""] * 5)]
    rows += [outcome_row(name, outcome) for name, outcome in run.outcomes.items()]
    print(f"\n{table(rows)}")
    times = CACHE / "setup.times"
    if set_up_seconds and times.exists():
        steps = [line.split("\t") for line in times.read_text().splitlines()]
        print("set-up: " + ", ".join(f"{name} {seconds} s" for seconds, name in steps))
    for name, outcome in run.outcomes.items():
        for reason, times in outcome.skipped.items():
            print(f"skipped in {name}, {times}: {reason}")
    print_left_out(run)
    for name, outcome in run.outcomes.items():
        for failure in outcome.failures:
            print(f"FAILED {name}: {failure}")


def print_left_out(run: Run) -> None:
    absent = [part for part in PARTS if part not in run.parts]
    if run.parts == list(SHORT_RUN):
        print("left out (./tests/run --all has all of it, ./tests/run PART a part):")
        for part in absent:
            print(f"  {part.name.ljust(12)} {part.what}")
    for file in sorted(LEFT_OUT.iterdir()):
        print(f"left out of {file.name}: {len(file.read_text().splitlines())} tests ({file.relative_to(ROOT)})")


def end_with(run: Run) -> Callable[[int, FrameType | None], None]:
    def end(number: int, frame: FrameType | None) -> None:
        run.commands.end()
        drop_noted()
        print(f"\nended by signal {number}", flush=True)
        os._exit(128 + number)

    return end


def make_empty(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def drop_locks() -> None:
    """Of runs that were killed while DeepSpeed compiled: the next would wait for them."""
    for lock in Path(os.environ["TORCH_EXTENSIONS_DIR"]).glob("**/lock"):
        lock.unlink()


def main(arguments: list[str]) -> int:
    if "--list" in arguments:
        print_list()
        return 0
    parts = chosen(arguments)
    if parts is None:
        return 2
    begun = time.monotonic()
    set_up_seconds = 0.0
    if "--no-setup" not in arguments:
        if not set_up(parts):
            print("0 passed, 1 failed (set-up)")
            return 1
        set_up_seconds = time.monotonic() - begun
    drop_locks()
    make_empty(FAULT_ROWS)
    make_empty(LEFT_OUT)
    Path(os.environ["PENSTOCK_TMP"]).mkdir(parents=True, exist_ok=True)
    run = Run(parts, begun)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end_with(run))
    run.all()
    drop_noted()
    print_outcomes(run, set_up_seconds)
    passed = sum(outcome.passed for outcome in run.outcomes.values())
    failed = sum(outcome.failed for outcome in run.outcomes.values())
    print(f"took {(time.monotonic() - begun) / 60:.1f} minutes")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
