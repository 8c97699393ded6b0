"""What only a GPU can show, measured: builds penstock, runs the stages, writes figures. Started by bench/gpu/run."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figure import STAGES, NotRunError, Outcome
from machine import commit, describe
from measurement import write_json
from native_build import NativeBuild
from prefix import Prefix
from report_text import section

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "gpu"
# Seconds at most. What one leaves over is the next one's, never more than the whole has left.
LIMITS = {"build": 240, "contract": 60, "round_trip": 60, "throughput": 150, "pinning": 30, "training": 270}
AT_THE_END = 5  # for ending a stage and writing the report


class Job:
    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._until: float = time.monotonic() + asked.time_limit
        self._out: Path = asked.out
        self._out.mkdir(parents=True, exist_ok=True)
        (asked.swap or self._out).mkdir(parents=True, exist_ok=True)
        self._swap = Path(tempfile.mkdtemp(prefix="swap-", dir=asked.swap or self._out))
        self._prefix = Prefix(ROOT / ".gpu", BUILD / "prefix")
        self._build = NativeBuild(BUILD, self._prefix, self._out / "build.log")
        self._document: dict[str, Any] = self._earlier()

    def run(self) -> int:
        """0 if every stage that was asked for measured something."""
        (self._out / "build.log").unlink(missing_ok=True)
        reason = self._prepare()
        self._document["machine"] = describe(self._build.python, self._swap)
        measured = [self._stage(stage, reason) for stage in self._asked.stage]
        shutil.rmtree(self._swap, ignore_errors=True)
        print(f"\n{self._out / 'gpu.md'}:\n\n{section(self._document)}", flush=True)
        return 0 if all(measured) else 1

    def _prepare(self) -> str:
        """Builds; returns why not, or nothing."""
        print("== building", flush=True)
        try:
            self._prefix.unpack()
            self._build.prepare_python(self._limit("build"))
            print(f"   {self._build.build(self._limit('build'))}", flush=True)
        except (NotRunError, OSError) as failed:
            print(f"   {failed}", flush=True)
            return f"penstock was not built: {failed}"
        return ""

    def _stage(self, stage: str, reason: str) -> bool:
        print(f"== {stage}", flush=True)
        begun = time.monotonic()
        figures: dict[str, Any] = {}
        if not reason:
            result = self._out / f"{stage}.json"
            result.unlink(missing_ok=True)
            reason = self._measure(stage, result) or "the stage ended without it"
            figures = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
            result.unlink(missing_ok=True)  # it was for a caller that ends this command in the middle of a stage
        for figure in STAGES[stage]:
            figures.setdefault(figure.key, Outcome(reason=reason.replace(f"{ROOT}/", "")).document())
        self._document["stages"][stage] = {"seconds": round(time.monotonic() - begun, 1), "figures": figures}
        self._write()
        return any("value" in figure for figure in figures.values())

    def _measure(self, stage: str, result: Path) -> str:
        """Runs the stage's process; returns what is to be said of figures that it has not told."""
        seconds = self._limit(stage)
        if seconds < AT_THE_END:
            return "the time limit was reached before the stage"
        command = [self._build.python, HERE / "measurement.py", stage, "--device", self._asked.device]
        command += [
            "--swap",
            self._swap,
            "--work",
            BUILD / "work" / stage,
            "--result",
            result,
            "--seconds",
            str(seconds),
        ]
        log = self._out / f"{stage}.log"
        with log.open("w", encoding="utf-8") as out:
            process = subprocess.Popen(
                list(map(str, command)), env=self._build.environment, stdout=out, stderr=out, start_new_session=True
            )
            try:
                status = process.wait(seconds + AT_THE_END)
            except subprocess.TimeoutExpired:
                return f"the stage was ended after {seconds:.0f} s"
            finally:
                end_group(process)
        print(log.read_text(encoding="utf-8", errors="replace")[-4000:], end="", flush=True)
        return f"the stage ended with status {status} ({log.name})" if status else ""

    def _limit(self, stage: str) -> float:
        asked: float | None = self._asked.stage_limit
        left: float = self._until - time.monotonic() - AT_THE_END
        return min(asked or LIMITS[stage], left)

    def _earlier(self) -> dict[str, Any]:
        """Stages that an earlier run measured on this device stay, so that several commands fill one report."""
        kept = self._out / "gpu.json"
        document: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        stages = document.get("stages", {}) if document.get("device") == self._asked.device else {}
        return {
            "schema": "penstock.gpu/1",
            "when": date.today().isoformat(),
            "device": self._asked.device,
            "commit": commit(ROOT) or self._prefix.manifest.get("commit", ""),
            "machine": {},
            "stages": stages,
        }

    def _write(self) -> None:
        write_json(self._out / "gpu.json", self._document)
        (self._out / "gpu.md").write_text(section(self._document), encoding="utf-8")


def end_group(leader: subprocess.Popen[bytes]) -> None:
    """A stage's process and all that it started: compilers outlive a training run that was ended.

    First it may remove what a run leaves in shared memory.
    """
    leader.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        leader.wait(AT_THE_END / 2)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/gpu/run", add_help=False)
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=lambda path: Path(path).resolve(), default=ROOT / "bench" / "out" / "gpu")
    parser.add_argument("--swap", type=lambda path: Path(path).resolve())
    parser.add_argument("--time-limit", type=float, default=570)
    parser.add_argument("--stage-limit", type=float)
    return Job(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
