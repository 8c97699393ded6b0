"""What only a GPU can show, measured: builds penstock, runs the stages, writes figures. Started by bench/gpu/run."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from markdown import table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "gpu"
CARRIED = ROOT / ".gpu"  # what bench/gpu/pack has collected, if anything
PREFIX = BUILD / "prefix"
LIBRARIES = PREFIX / "usr/lib/x86_64-linux-gnu"
TITLE = "# On a GPU"
# Seconds at most. What one leaves over is the next one's, never more than the whole has left.
LIMITS = {"contract": 60, "round_trip": 60, "throughput": 150, "pinning": 30, "training": 270, "habits": 300}
BUILD_SHARE = 0.42  # of the time limit, at most
AT_THE_END = 5  # for ending a stage and writing the report
TARGETS = ("_core", "bench_pinning", "test_device", "test_transfer")
# What the wheels are for, and the version that the documents speak of.
MODULES = ("nanobind>=2.15", "deepspeed==0.19.8", "peft")


def unpack() -> None:
    """The packages that were carried along, and their descriptions pointed to where they lie now."""
    archive = CARRIED / "prefix.tar.xz"
    if PREFIX.exists() or not archive.exists():
        return
    with tarfile.open(archive) as packed:
        packed.extractall(PREFIX)
    for description in PREFIX.rglob("*.pc"):
        description.write_text(description.read_text().replace("=/usr", f"={PREFIX}/usr"))


def environment(python: Path) -> dict[str, str]:
    """Variables by which compilers, CMake, pkg-config, loaders and shells find what is here."""
    usr = PREFIX / "usr"
    added = {
        "CMAKE_PREFIX_PATH": [usr],
        "PKG_CONFIG_PATH": [LIBRARIES / "pkgconfig", usr / "share/pkgconfig"],
        "CPATH": [usr / "include", usr / "include/x86_64-linux-gnu"],
        "LIBRARY_PATH": [LIBRARIES],
        "LD_LIBRARY_PATH": [LIBRARIES],
        "PYTHONPATH": [BUILD / "site"],
    }
    # DeepSpeed cannot read "9.0a" there. It finds out by itself what the card is.
    old = {name: value for name, value in os.environ.items() if name != "TORCH_CUDA_ARCH_LIST"}
    joined = {name: os.pathsep.join([*map(str, paths), old.get(name, "")]).strip(":") for name, paths in added.items()}
    # What is installed fits its machine better than what was carried along.
    path = [str(python.parent), str(Path(sys.executable).parent), old["PATH"], str(usr / "bin"), str(PREFIX / "fio")]
    cores = str(len(os.sched_getaffinity(0)))
    extensions = {"TORCH_EXTENSIONS_DIR": str(BUILD / "torch_extensions"), "MAX_JOBS": cores}
    return {**old, **joined, **extensions, "PATH": os.pathsep.join(path)}


class Job:
    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._until: float = time.monotonic() + asked.time_limit
        self._out: Path = asked.out
        self._out.mkdir(parents=True, exist_ok=True)
        (asked.swap or self._out).mkdir(parents=True, exist_ok=True)
        self._swap = Path(tempfile.mkdtemp(prefix="swap-", dir=asked.swap or self._out))
        self._python = BUILD / "venv" / "bin" / "python"
        self._environment = environment(self._python)

    def run(self) -> int:
        """0 if every stage that was asked for measured something."""
        document = self._earlier()
        reason = self._build()
        document["machine"] = describe(self._python)
        measured = True
        for stage in self._asked.stage:
            print(f"== {stage}", flush=True)
            rows = [] if reason else self._measure(stage)
            measured = measured and any(not row[1].startswith("not run") for row in rows)
            document["stages"][stage] = rows or [["all of it", f"not run: {reason}", "", ""]]
            (self._out / "gpu.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
            (self._out / "gpu.md").write_text(page(document), encoding="utf-8")
        shutil.rmtree(self._swap, ignore_errors=True)
        print(f"\n{self._out / 'gpu.md'}:\n\n{page(document)}", flush=True)
        return 0 if measured else 1

    def _build(self) -> str:
        """Module, tests of devices and a Python that has what stages ask for; returns why not, or nothing."""
        print("== building", flush=True)
        begun = time.monotonic()
        unpack()
        native, cores = BUILD / "native", len(os.sched_getaffinity(0))
        commands = [
            *self._python_commands(),
            [
                "cmake", "-S", ROOT, "-B", native, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                "-DPENSTOCK_BUILD_PYTHON=ON", f"-DPython_EXECUTABLE={self._python}",
            ],
            ["cmake", "--build", native, f"-j{cores}", "--target", *TARGETS],
        ]  # fmt: skip
        with (self._out / "build.log").open("w", encoding="utf-8") as log:
            for command in commands:
                words = list(map(str, command))
                left = max(1.0, BUILD_SHARE * self._asked.time_limit - (time.monotonic() - begun))
                try:
                    subprocess.run(words, env=self._environment, stdout=log, stderr=log, timeout=left, check=True)
                except (OSError, subprocess.SubprocessError) as failed:
                    print(f"   {failed}", flush=True)
                    return f"penstock was not built: {Path(words[0]).name} {words[1]} failed (build.log)"
        site = BUILD / "site" / "penstock"
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(ROOT / "bindings/python/penstock", site, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        for module in (native / "bindings/python").glob("_core*.so"):
            shutil.copy(module, site)
        print(f"   built in {time.monotonic() - begun:.0f} s on {cores} cores", flush=True)
        return ""

    def _python_commands(self) -> list[list[Any]]:
        """The interpreter that runs this with all that it has, and beside it the wheels for what it lacks."""
        venv = BUILD / "venv"
        packages = venv / f"lib/python3.{sys.version_info[1]}/site-packages"
        # Of an interpreter that is a virtual environment's itself, `system` means what lies below that.
        parents = "\n".join(path for path in sys.path if "-packages" in path)
        make = (
            "import sys, venv; venv.create(sys.argv[1], system_site_packages=True); "
            "open(sys.argv[2], 'w').write(sys.argv[3])"
        )
        commands: list[list[Any]] = [[sys.executable, "-c", make, venv, packages / "parent.pth", parents]]
        if (CARRIED / "wheels").is_dir():  # pip leaves alone what is there and new enough
            pip = [sys.executable, "-m", "pip", "--python", self._python, "install", "-q", "--no-index"]
            commands.append([*pip, "--find-links", CARRIED / "wheels", *MODULES])
        return commands

    def _measure(self, stage: str) -> list[list[str]]:
        """Runs the stage's process; its rows, and one more where it did not end well."""
        seconds = min(self._asked.stage_limit or LIMITS[stage], self._left())
        if seconds < AT_THE_END:
            return [["all of it", "not run: the time limit was reached before the stage", "", ""]]
        work, rows_file = BUILD / "work" / stage, self._out / f"{stage}.rows"
        work.mkdir(parents=True, exist_ok=True)
        rows_file.unlink(missing_ok=True)
        command = [self._python, HERE / f"{stage}.py", "--device", self._asked.device, "--swap", self._swap]
        command += ["--work", work, "--rows", rows_file, "--seconds", seconds]
        log = self._out / f"{stage}.log"
        with log.open("w", encoding="utf-8") as out:
            process = subprocess.Popen(
                list(map(str, command)), env=self._environment, stdout=out, stderr=out, start_new_session=True
            )
            try:
                status = process.wait(seconds + AT_THE_END)
                ended = f"it ended with status {status}" if status else ""
            except subprocess.TimeoutExpired:
                ended = f"it was ended after {seconds:.0f} s"
            finally:
                end_session(process)
        text = log.read_text(encoding="utf-8", errors="replace")
        print(text[-4000:], end="", flush=True)
        rows: list[list[str]] = json.loads(rows_file.read_text(encoding="utf-8")) if rows_file.exists() else []
        rows_file.unlink(missing_ok=True)
        if ended:
            rows.append(["the rest", f"not run: {ended}: {last_error(text)}", "", ""])
        return rows

    def _left(self) -> float:
        return self._until - time.monotonic() - AT_THE_END

    def _earlier(self) -> dict[str, Any]:
        """Stages that an earlier run measured on this device stay, so that several commands fill one report."""
        kept = self._out / "gpu.json"
        document: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        same = document.get("device") == self._asked.device
        head = {"schema": "penstock.gpu/2", "when": date.today().isoformat(), "device": self._asked.device}
        return {**head, "machine": "", "stages": document["stages"] if same else {}}


def last_error(log: str) -> str:
    """The last line that looks like one, without paths of this checkout."""
    lines = [line.strip() for line in log.replace(f"{ROOT}/", "").splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "it said nothing")[:300]


def end_session(leader: subprocess.Popen[bytes]) -> None:
    """A stage's process and all that it started: compilers outlive a training run that was ended.

    First it may remove what a run leaves in shared memory.
    """
    leader.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        leader.wait(AT_THE_END / 2)
    for process in Path("/proc").glob("[0-9]*"):  # by session: ninja's commands have groups of their own
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(process.name)) == leader.pid:
                os.kill(int(process.name), signal.SIGKILL)
    leader.wait()


def describe(python: Path) -> str:
    """Card, driver, cores, memory, kernel, torch and commit; what cannot be found out is left out."""
    card = output_of("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    facts = [card or "no NVIDIA GPU", f"{len(os.sched_getaffinity(0))} cores", f"{memory:.0f} GiB"]
    facts += [f"{platform.system()} {platform.release()}"]
    facts.append(output_of(str(python), "-c", "import torch; print('torch', torch.__version__)"))
    commit = output_of("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    if not commit and (CARRIED / "commit").exists():
        commit = (CARRIED / "commit").read_text().strip()
    return ", ".join(fact for fact in facts if fact) + f"; commit {commit or 'unknown'}"


def output_of(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


def page(document: dict[str, Any]) -> str:
    """docs/GPU.md."""
    rehearsal = " **A rehearsal on a simulated device.**" if document["device"].startswith("host") else ""
    head = f"{TITLE}\n\n`bench/gpu/run`, {document['when']}: {document['machine']}.{rehearsal}\n\n"
    rows = [
        [" ".join(cell.split()).replace("|", "\\|") for cell in (stage, *row)]
        for stage in LIMITS
        for row in document["stages"].get(stage, [["all of it", "not run: its stage was not asked for", "", ""]])
    ]
    return head + table(["stage", "figure", "measured", "goal", "beside it"], rows) + "\n"


def main() -> int:
    more = "bench/gpu/run --help says more."
    parser = argparse.ArgumentParser(prog="bench/gpu/run", description=__doc__, epilog=more)
    parser.add_argument("--stage", nargs="+", choices=LIMITS, default=list(LIMITS))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=lambda path: Path(path).resolve(), default=ROOT / "bench" / "out" / "gpu")
    parser.add_argument("--swap", type=lambda path: Path(path).resolve())
    parser.add_argument("--time-limit", type=float, default=570)
    parser.add_argument("--stage-limit", type=float)
    return Job(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
