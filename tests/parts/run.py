"""Compiles what parts need, runs them side by side, and notes what came of them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from command import CACHE, LOGS, ROOT, Commands, Ended
from part import Build, Ctest, Part, Pytest
from report import Outcome, read_junit, read_last_line
from schedule import Job, run_jobs

PYTHON = ROOT / ".venv" / "bin" / "python"
FAULT_ROWS = CACHE / "fault_rows"
LEFT_OUT = CACHE / "left_out"  # by part: the names of its tests that the marks left out
CORES = len(os.sched_getaffinity(0))


class Run:
    def __init__(self, parts: list[Part], begun: float) -> None:
        self.parts = parts
        self.outcomes = {part.name: Outcome() for part in parts}
        self.commands = Commands()
        self._begun = begun
        self._built: dict[str, bool] = {}  # by preset, whether it succeeded

    def all(self) -> None:
        """Folders are compiled in the order of the parts, beside parts that need none or have theirs."""
        builds = merged_builds(self.parts)
        jobs = [self._build_job(preset, build) for preset, build in builds.items()]
        jobs += [self._part_job(part) for part in self.parts]
        run_jobs(jobs, CORES)

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begun:5.0f} s] {text}", flush=True)

    def _build_job(self, preset: str, build: Build) -> Job:
        first = next(part for part in self.parts if part.build and part.build.preset == preset)

        def action() -> None:
            self.say(f"compiling: {preset} ({' '.join(build.targets)})")
            ended = self._build(build)
            outcome = self.outcomes[first.name]
            outcome.compiling, outcome.cpu_seconds = ended.seconds, outcome.cpu_seconds + ended.cpu_seconds
            self._built[preset] = ended.status == 0
            if ended.status != 0:
                print_tail(LOGS / f"build-{preset}.log", 15, errors=True)
                outcome.failed += 1
                outcome.failures.append(f"compiling {preset}")

        return Job(f"build {preset}", CORES, (), action)

    def _build(self, build: Build) -> Ended:
        log = LOGS / f"build-{build.preset}.log"
        log.unlink(missing_ok=True)
        configure = ["cmake", "--preset", build.preset]
        if build.preset in ("asan-ubsan", "tsan"):
            options = subprocess.run([ROOT / "tests" / "sanitizer_options"], capture_output=True, text=True, check=True)
            configure += options.stdout.split()
        make = ["nice", "cmake", "--build", "--preset", build.preset, "--parallel", str(CORES), "--target"]
        ends = []
        # Configured twice: a folder that another compiler made forgets all other values the first time.
        for command in (configure, configure, [*make, *build.targets]):
            ends.append(self.commands.run(command, log))
            if ends[-1].status != 0:
                break
        return Ended(ends[-1].status, sum(end.seconds for end in ends), sum(end.cpu_seconds for end in ends))

    def _part_job(self, part: Part) -> Job:
        def action() -> None:
            if part.build and not self._built[part.build.preset]:
                return
            self.say(f"{part.name}: {part.what}")
            outcome = self.outcomes[part.name]
            log = LOGS / f"{part.name}.log"
            log.unlink(missing_ok=True)
            ended = self._run(part, log, outcome)
            outcome.running, outcome.cpu_seconds = ended.seconds, outcome.cpu_seconds + ended.cpu_seconds
            if outcome.failed:
                print_tail(log, 80)
            self.say(f"{part.name}: {outcome.passed} passed, {outcome.failed} failed ({ended.seconds:.0f} s)")

        built = (f"build {part.build.preset}",) if part.build else ()
        return Job(part.name, part.cores, (*part.after, *built), action)

    def _run(self, part: Part, log: Path, outcome: Outcome) -> Ended:
        environment = {"PENSTOCK_FAULT_ROWS": str(FAULT_ROWS), **part.environment}
        report = LOGS / f"{part.name}.xml"
        report.unlink(missing_ok=True)
        if isinstance(part.run, Ctest):
            arguments = ["--preset", part.run.preset, "-j", str(CORES), "--output-junit", str(report)]
            ended = self.commands.run(["ctest", *arguments, *part.run.arguments], log, environment)
            read_junit(report, outcome)
        elif isinstance(part.run, Pytest):
            environment["PENSTOCK_BINARY"] = str(ROOT / ".venv" / "bin" / "penstock")
            environment["PENSTOCK_LEFT_OUT"] = str(LEFT_OUT / part.name)
            command = [str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", str(report)]
            command += ["--basetemp", f"{os.environ['PENSTOCK_TMP']}/pytest-{part.name}", "-m", part.run.marks]
            ended = self.commands.run([*command, *part.run.arguments], log, environment)
            read_junit(report, outcome)
        else:
            ended = self.commands.run(part.run.arguments, log, environment)
            read_last_line(log, ended.status, outcome)
        if ended.status != 0 and not outcome.failed:
            outcome.failed += 1
            outcome.failures.append(f"ended with status {ended.status}")
        return ended


def merged_builds(parts: list[Part]) -> dict[str, Build]:
    """One a preset, of all that its parts need, in their order."""
    builds: dict[str, Build] = {}
    for part in parts:
        if part.build:
            before = builds.get(part.build.preset, Build(part.build.preset, ()))
            targets = dict.fromkeys((*before.targets, *part.build.targets))
            builds[part.build.preset] = Build(part.build.preset, tuple(targets))
    return builds


def print_tail(log: Path, lines: int, errors: bool = False) -> None:
    said = log.read_text(errors="replace").split("\n") if log.exists() else []
    worst = [line for line in said if "error" in line or "FAILED" in line][:30] if errors else []
    print("\n".join([*worst, *said[-lines:], f"   the whole output: {log}"]), flush=True)
