"""The table of docs/HABITS.md with one rank, trained on the device: every digit against `device: cpu`."""

from __future__ import annotations

import os
import subprocess
import sys
from xml.etree import ElementTree

from compiled_ops import compile_ops
from stage import ROOT, Stage
from swap_device import simulated

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
    changes = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1"}
    if simulated(stage.device):
        command += ["-m", "not deep"]  # a rehearsal
    else:
        changes |= {"PENSTOCK_TEST_DEVICE": "cuda", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        builders = ("CPUAdamBuilder", "FusedAdamBuilder", "CPULionBuilder", "CPUAdagradBuilder")
        compile_ops(stage, builders, {**changes, "DS_ACCELERATOR": "cuda"})
        command += ["-m", "deep or not deep"]
    subprocess.run(command, env={**os.environ, **changes}, check=False)
    cases = list(ElementTree.parse(report).iter("testcase"))
    skipped = [case for case in cases if case.find("skipped") is not None]
    failed = [case for case in cases if len(case) and case not in skipped]
    names = [str(case.get("name")).removeprefix("test_habit") for case in failed[:NAMED]]
    notes = [f"**not: {', '.join(names)}**"] if names else []
    notes += [f"{len(skipped)} are not compared on a GPU"] if skipped else []
    compared = len(cases) - len(skipped)
    what = "habits of users with one rank, all digits equal to device cpu's"
    stage.row(what, f"{compared - len(failed)} of {compared}", "", "; ".join(notes))


if __name__ == "__main__":
    main()
