"""The C++ tests of devices, over the device in question: which passed, which were skipped and why."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from figure import NotRunError, Outcome
from measurement import Measurement

ROOT = Path(__file__).resolve().parents[2]
# A room of tests is about devices if one of its files has one of these.
SIGNS = ("cuda_device.h", "device_staging.h", "open_cuda_device(")
# The figure that a test counts for, by its name; the others are of the contract.
STAGING = ("Staging", "Engine", "Swap")


@dataclass(frozen=True)
class Case:
    name: str
    status: str  # passed, skipped, failed
    said: str = ""


def rooms() -> list[str]:
    """Rooms of tests/ that need a device: their programs are test_ROOM."""
    found = []
    for listing in sorted((ROOT / "tests").glob("*/CMakeLists.txt")):
        sources = (source.read_text(encoding="utf-8") for source in listing.parent.glob("*_test.cpp"))
        if any(sign in text for text in sources for sign in SIGNS):
            found.append(listing.parent.name)
    return found


def measure(measurement: Measurement) -> None:
    runtime = measurement.device.partition(":")[0]
    cases: list[Case] = []
    for room in rooms():
        program = ROOT / "build" / "gpu" / "native" / "tests" / room / f"test_{room}"
        if not program.exists():
            raise NotRunError(f"{program.name} was not built")
        cases += run(program, measurement.work / f"{room}.xml", max(10.0, measurement.seconds_left()))
    of_staging = [case for case in cases if any(sign in case.name for sign in STAGING)]
    of_contract = [case for case in cases if case not in of_staging and "Contract" in case.name]
    for key, chosen in (("device", of_contract), ("staging", of_staging)):
        outcome = judge(chosen, runtime)
        if outcome.value is None:
            measurement.not_run(key, str(outcome.reason))
        else:
            measurement.tell(key, outcome.value, note=outcome.note)


def run(program: Path, report: Path, seconds: float) -> list[Case]:
    report.unlink(missing_ok=True)
    command = [str(program), f"--gtest_output=xml:{report}", "--gtest_filter=*Device*:*Staging*:*cuda*:*Cuda*"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    report.with_suffix(".log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if not report.exists():
        return [Case(f"{program.name}Contract/cuda/host", "failed", f"ended with status {done.returncode}")]
    return read(report.read_text(encoding="utf-8"))


def read(report: str) -> list[Case]:
    """The cases of gtest's XML."""
    cases = []
    for entry in ElementTree.fromstring(report).iter("testcase"):
        name = f"{entry.get('classname')}.{entry.get('name')}"
        failure, skipped = entry.find("failure"), entry.find("skipped")
        if failure is not None:
            cases.append(Case(name, "failed", _sentence(failure)))
        elif skipped is not None or entry.get("result") == "skipped":
            cases.append(Case(name, "skipped", _sentence(skipped)))
        else:
            cases.append(Case(name, "passed"))
    return cases


def judge(cases: list[Case], runtime: str) -> Outcome:
    """Of the cases over this runtime; without any that ran: why."""
    over = [case for case in cases if runtime in case.name.lower()]
    if runtime == "host":  # some know no other device, and do not name it
        over += [case for case in cases if case not in over and not case.name.lower().endswith(("/cuda", "/hip"))]
    if not over:
        passed = sum(case.status == "passed" for case in cases)
        return Outcome(reason=f"these tests know no {runtime} ({passed} passed over the simulated device)")
    counts = Counter(case.status for case in over)
    if counts["skipped"] == len(over):
        return Outcome(reason=f"{len(over)} tests skipped: {over[0].said}")
    value = ", ".join(f"{counts[status]} {status}" for status in ("passed", "skipped", "failed"))
    said = Counter(f"{case.status}: {case.said}" for case in over if case.status != "passed")
    failed = [case.name for case in over if case.status == "failed"]
    notes = [f"{text} ({number})" for text, number in said.most_common(3)]
    return Outcome(value, note="; ".join([*notes, *failed[:5]]))


def _sentence(entry: ElementTree.Element | None) -> str:
    """What a test said, without file and line."""
    said = (entry.get("message") or entry.text or "") if entry is not None else ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if lines and ".cpp:" in lines[0]:
        lines = lines[1:]
    return " ".join(lines[:3])
