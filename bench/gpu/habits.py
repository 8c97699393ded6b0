"""The table of docs/HABITS.md with one rank, trained on the device: every digit against `device: cpu`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

from compiled_ops import compile_ops
from contract import outcomes
from stage import ROOT, Stage
from swap_device import simulated, training_environment

TESTS = ROOT / "tests" / "deepspeed" / "test_habits.py"
SPARE_CORES = 2
NAMED = 12  # of those that differ


def main() -> None:
    stage = Stage()
    cores = max(2, len(os.sched_getaffinity(0)) - SPARE_CORES)
    report = stage.work / "habits.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"-n{cores}", f"--junitxml={report}", "-k", "test_habit and 1]"]
    command += [f"--basetemp={stage.swap / 'habits'}", "-p", "no:cacheprovider", str(TESTS)]
    changes = training_environment(stage.device)
    if simulated(stage.device):
        command += ["-m", "not deep"]  # a rehearsal
    else:
        changes["PENSTOCK_TEST_DEVICE"] = "cuda"
        builders = ("CPUAdamBuilder", "FusedAdamBuilder", "CPULionBuilder", "CPUAdagradBuilder")
        compile_ops(stage, builders, changes)
        command += ["-m", "deep or not deep"]
    subprocess.run(command, env={**os.environ, **changes}, check=False)
    cases = outcomes(report.read_text(encoding="utf-8"), stage.device.partition(":")[0])
    counts = Counter(status for status, _, _ in cases)
    failed = [name.partition("[")[2].removesuffix("]") for status, name, _ in cases if status == "failed"]
    notes = [f"**not: {', '.join(failed[:NAMED])}**"] if failed else []
    notes += [f"{counts['skipped']} are not compared on a GPU"] if counts["skipped"] else []
    what = "habits of users with one rank, all digits equal to device cpu's"
    stage.row(what, f"{counts['passed']} of {counts['passed'] + counts['failed']}", "", "; ".join(notes))


if __name__ == "__main__":
    main()
