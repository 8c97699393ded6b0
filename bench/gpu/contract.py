"""The C++ tests of devices, over the device in question: which passed, which were skipped and why."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from stage import ROOT, Stage

# Programs of tests/, and what their tests over a device have in their names.
PROGRAMS = ("device", "transfer")
FILTER = "*Device*:*Staging*:*Cuda*"


def outcomes(report: str, runtime: str) -> list[tuple[str, str, str]]:
    """Status, name and reason of a JUnit file's cases; those over another runtime than this name it at their end."""
    cases = []
    for entry in ElementTree.fromstring(report).iter("testcase"):
        name = f"{entry.get('classname')}.{entry.get('name')}"
        if name.lower().endswith(tuple(f"/{other}" for other in ("cuda", "hip", "host") if other != runtime)):
            continue
        failure, error, skipped = entry.find("failure"), entry.find("error"), entry.find("skipped")
        failure = failure if failure is not None else error
        why = failure if failure is not None else skipped
        said = (why.get("message") or why.text or "").strip().splitlines()[-1:] if why is not None else []
        status = "failed" if failure is not None else "skipped" if skipped is not None else "passed"
        cases.append((status, name, " ".join(said)))
    return cases


def run(program: Path, stage: Stage) -> list[tuple[str, str, str]]:
    report = stage.work / f"{program.name}.xml"
    report.unlink(missing_ok=True)
    command = [str(program), f"--gtest_output=xml:{report}", f"--gtest_filter={FILTER}"]
    done = subprocess.run(command, timeout=max(10.0, stage.seconds_left()), check=False)
    if not report.exists():
        return [("failed", program.name, f"ended with status {done.returncode}")]
    return outcomes(report.read_text(encoding="utf-8"), stage.device.partition(":")[0])


def main() -> None:
    stage = Stage()
    for name in PROGRAMS:
        cases = run(ROOT / "build" / "gpu" / "native" / "tests" / name / f"test_{name}", stage)
        counts = Counter(status for status, _, _ in cases)
        measured = ", ".join(f"{counts[status]} {status}" for status in ("passed", "skipped", "failed"))
        notes = Counter(f"{status}: {why}" for status, _, why in cases if status != "passed").most_common(3)
        failed = [case for status, case, _ in cases if status == "failed"]
        stage.row(
            f"C++ tests of devices in tests/{name}",
            measured,
            "",
            "; ".join([*(text for text, _ in notes), *failed[:5]]),
        )


if __name__ == "__main__":
    main()
