"""penstock's module and the tests of devices, built with all cores, and a Python that has what they ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from contract import rooms
from figure import NotRunError
from prefix import Prefix

ROOT = Path(__file__).resolve().parents[2]
# What the wheels are for, and the version that the documents speak of.
MODULES = {"nanobind": "nanobind>=2.4", "deepspeed": "deepspeed==0.19.8"}


class NativeBuild:
    """Everything goes below `build`; calls may be repeated, and then take seconds."""

    def __init__(self, build: Path, prefix: Prefix, log: Path) -> None:
        self._build = build
        self._prefix = prefix
        self._log = log
        self.environment = prefix.environment(os.environ)
        self.python = build / "venv" / "bin" / "python"

    def prepare_python(self, seconds: float) -> None:
        """The interpreter that runs this with all that it has, and beside it the wheels for what it lacks."""
        if not self.python.exists():
            self._run(
                [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(self._venv)], seconds
            )
        # Of an interpreter that is a virtual environment's itself, `system` means what lies below that.
        packages = next(self._venv.glob("lib/python3*/site-packages"))
        (packages / "parent.pth").write_text("\n".join(path for path in sys.path if "-packages" in path) + "\n")
        for module, wanted in MODULES.items():
            self._install(module, wanted, seconds)
        path = [str(self.python.parent), str(Path(sys.executable).parent), self.environment["PATH"]]
        self.environment |= {
            "PATH": os.pathsep.join(path),
            "VIRTUAL_ENV": str(self._venv),
            "PYTHONPATH": str(self._build / "site"),
            "TORCH_EXTENSIONS_DIR": str(self._build / "torch_extensions"),
            "MAX_JOBS": str(len(os.sched_getaffinity(0))),
        }

    def build(self, seconds: float) -> str:
        """Configures, builds what the stages need, lays the Python package out; says how long it took."""
        begun = time.monotonic()
        native, cores = self._build / "native", len(os.sched_getaffinity(0))
        configure = ["cmake", "-S", str(ROOT), "-B", str(native), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
        configure += ["-DPENSTOCK_BUILD_PYTHON=ON", f"-DPython_EXECUTABLE={self.python}"]
        self._run(configure, seconds)
        targets = ["_core", "pinning_cost", *(f"test_{room}" for room in rooms())]
        left = seconds - (time.monotonic() - begun)
        self._run(["cmake", "--build", str(native), f"-j{cores}", "--target", *targets], left)
        site = self._build / "site" / "penstock"
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(ROOT / "bindings/python/penstock", site, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        for module in (native / "bindings/python").glob("_core*.so"):
            shutil.copy(module, site)
        self._run([str(self.python), "-c", "import penstock"], seconds)
        return f"built in {time.monotonic() - begun:.0f} s on {cores} cores"

    @property
    def _venv(self) -> Path:
        return self._build / "venv"

    def _install(self, module: str, wanted: str, seconds: float) -> None:
        """A module that is missing here and whose wheel was carried along. A stage says what it misses."""
        has = [
            str(self.python),
            "-c",
            f"import importlib.util, sys; sys.exit(not importlib.util.find_spec('{module}'))",
        ]
        if subprocess.run(has, env=self.environment, check=False).returncode == 0 or not self._prefix.wheels.is_dir():
            return
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "-q", "--no-index"]
        pip += ["--disable-pip-version-check", "--find-links", str(self._prefix.wheels), wanted]
        try:
            self._run(pip, seconds)
        except NotRunError as refused:
            print(f"   {refused}", flush=True)

    def _run(self, words: list[str], seconds: float) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {' '.join(words)}\n")
            log.flush()
            begun = log.tell()
            try:
                done = subprocess.run(
                    words,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    timeout=max(1, seconds),
                    check=False,
                )
            except FileNotFoundError:
                raise NotRunError(f"there is no {words[0]} here") from None
            except subprocess.TimeoutExpired:
                raise NotRunError(f"{_name(words)} was not done after {seconds:.0f} s") from None
        if done.returncode != 0:
            said = self._log.read_text(encoding="utf-8", errors="replace")[begun:]
            raise NotRunError(
                f"{_name(words)} failed: {first_error(said) or f'status {done.returncode}'} ({self._log.name})"
            )


def first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "rror" in line), lines[-1] if lines else "")[:300]


def _name(words: list[str]) -> str:
    return " ".join([Path(words[0]).name, *words[1:4]])
