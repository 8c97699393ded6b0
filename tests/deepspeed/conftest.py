"""A small model with the proportions of the real one, and a way to train it in a process of its own."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "bench" / "data"
sys.path.insert(0, str(ROOT / "bench"))
Once = Callable[[str, Callable[[Path], object]], Path]


@dataclass
class Run:
    returncode: int
    output: str
    left: int = 0  # files in shared memory, which are gone

    @property
    def values(self) -> list[tuple[str, ...]]:
        """What must be equal to the last digit, a tuple a step."""
        from training_run import parse

        steps: list[Any] = []
        for line in self.output.split("\n"):
            parse(line, steps)
        return [step.values for step in steps]

    @property
    def last_line(self) -> str:
        lines = [line for line in self.output.strip().split("\n") if line.strip()]
        return lines[-1] if lines else ""


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Fills a directory once for all processes of a test run: what takes long to compute, and all of them read."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def made(name: str, fill: Callable[[Path], object]) -> Path:
        directory, partial = root / name, root / f"{name}.partial"
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.exists():
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                fill(partial)
                partial.rename(directory)
        return directory

    return made


@pytest.fixture(scope="session")
def compiled(once: Once) -> None:
    """DeepSpeed compiles its optimizer and its collectives when they are first wanted: for a minute, not a run's."""
    load = (
        "from deepspeed.accelerator import get_accelerator as a\n"
        "for name in ('CPUAdamBuilder', 'ShareMemCommBuilder'): a().create_op_builder(name).load(verbose=False)"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # has ninja
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "PATH": path}

    def fill(directory: Path) -> None:
        command = [sys.executable, "-c", load]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200, env=environment)
        assert done.returncode == 0, done.stderr

    once("compiled", fill)


@pytest.fixture(scope="session")
def small_model(once: Once, compiled: None) -> Path:
    """bench/seeded_model.py's, with two layers."""
    from seeded_model import SMALL, seeded_model

    return once("model", lambda directory: seeded_model(SMALL, directory / "small")) / "small"


@pytest.fixture
def swap(tmp_path: Path) -> Path:
    return tmp_path / "swap"


def full_finetune_config(swap: Path | None, **changes: Any) -> dict[str, Any]:
    """bench/data/full-finetune.json on `swap`, or with device cpu where that is None; dotted keys are changed."""
    config = json.loads((DATA / "full-finetune.json").read_text())
    config["zero_optimization"]["sub_group_size"] = 2000000
    return adapted(config, swap, changes)


def grpo_config(swap: Path | None, **changes: Any) -> dict[str, Any]:
    """bench/data/seed-003.json on `swap`, or with device cpu where that is None."""
    return adapted(json.loads((DATA / "seed-003.json").read_text()), swap, changes)


def linear_config(swap: Path | None, **changes: Any) -> dict[str, Any]:
    """For linear_training.py, with an optimizer of torch; everything from the drive, or with device cpu."""
    offload = {"device": "cpu" if swap is None else "nvme", "nvme_path": str(swap), "buffer_count": 5}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {
            "stage": 3,
            "sub_group_size": 1 << 20,
            "stage3_param_persistence_threshold": 10,
            "offload_param": {**offload, "max_in_cpu": 0},
            "offload_optimizer": offload,
        },
        "aio": {"block_size": 1 << 20},
    }
    if swap is not None:
        config["penstock"] = {"ram_bytes": 0, "max_pinned_bytes": "16MiB"}
    return _changed(config, changes)


def adapted(config: dict[str, Any], swap: Path | None, changes: dict[str, Any]) -> dict[str, Any]:
    config = copy.deepcopy(config)
    for section in ("offload_param", "offload_optimizer"):
        if swap is None:
            config["zero_optimization"][section]["device"] = "cpu"
        config["zero_optimization"][section]["nvme_path"] = str(swap)
    return _changed(config, changes)


def _changed(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        target = config
        *parents, last = key.split("__")
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = value
    return config


class Runner:
    """Runs training scripts with a port of their own; `penstock` through the module, else under stock DeepSpeed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "DS_ACCELERATOR": "cpu",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PENSTOCK_STATS": str(directory / "stats-%r.json"),
        }

    def full_finetune(
        self, model: Path, config: dict[str, Any], steps: int = 3, penstock: bool = True, *extra: str
    ) -> Run:
        return self.script(DATA / "full_finetune.py", [str(model), self.config(config), str(steps), *extra], penstock)

    def grpo(self, model: Path, config: dict[str, Any], steps: int = 2, penstock: bool = True) -> Run:
        return self.script(DATA / "grpo_lora.py", [str(model), self.config(config), str(steps)], penstock)

    def script(
        self,
        script: Path,
        arguments: list[str],
        penstock: bool = True,
        killed_when: Callable[[], bool] | None = None,
        **environment: str,
    ) -> Run:
        one_rank = {"LOCAL_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        module = ["-m", "penstock.deepspeed"] if penstock else []
        command = [sys.executable, *module, str(script), *arguments]
        return self.command(command, 400, killed_when, **one_rank, MASTER_PORT=free_port(), **environment)

    def command(
        self,
        command: list[str],
        timeout: float = 400,
        killed_when: Callable[[], bool] | None = None,
        **environment: str,
    ) -> Run:
        """Ends all that the command has started, and removes what that leaves in shared memory, however it ends.
        killed_when: it is ended by SIGKILL as soon as this is so.
        """
        with_its_parent = ["setpriv", "--pdeathsig", "KILL", "--"]  # a test's process may be killed
        process = subprocess.Popen(
            [*with_its_parent, *command],
            env={**self.environment, **environment},
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        over = threading.Event()
        try:
            if killed_when is not None:
                threading.Thread(target=kill_when, args=(process, killed_when, over), daemon=True).start()
            output, _ = process.communicate(timeout=timeout)
        finally:
            over.set()
            end_all(process)
            left = drop_shared_memory()
        return Run(process.returncode, output, left)

    def config(self, config: dict[str, Any]) -> str:
        file = self.directory / "ds_config.json"
        file.write_text(json.dumps(config))
        return str(file)

    def stats(self, rank: int = 0) -> dict[str, Any]:
        return json.loads((self.directory / f"stats-{rank}.json").read_text())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


MOST_STEPS = 4


def reference(once: Once, name: str, train: Callable[[Runner], Run], steps: int) -> list[tuple[str, ...]]:
    """The values of a run with device cpu and without penstock, which is made once."""

    def fill(directory: Path) -> None:
        run = train(Runner(directory))
        if run.returncode == -signal.SIGABRT:  # a thread of torch's, as the interpreter ends; penstock is not in there
            run = train(Runner(directory))
        assert run.returncode == 0, run.output
        assert run.left == 1, "what DeepSpeed leaves in /dev/shm is known by its name"
        assert len(run.values) == steps
        (directory / "values.json").write_text(json.dumps(run.values))

    values = json.loads((once(name, fill) / "values.json").read_text())
    return [tuple(step) for step in values]


@pytest.fixture(scope="session")
def on_cpu(small_model: Path, once: Once) -> Callable[[int], list[tuple[str, ...]]]:
    """The values of so many steps of full_finetune.py. A longer run begins with those of a shorter one."""

    def train(runner: Runner) -> Run:
        return runner.full_finetune(small_model, full_finetune_config(None), MOST_STEPS, False)

    return lambda steps: reference(once, "finetune-on-cpu", train, MOST_STEPS)[:steps]


@pytest.fixture(scope="session")
def grpo_on_cpu(small_model: Path, once: Once) -> Callable[[], list[tuple[str, ...]]]:
    """The values of two steps of grpo_lora.py, whose learning rate depends on how many they are."""
    return lambda: reference(
        once, "grpo-on-cpu", lambda runner: runner.grpo(small_model, grpo_config(None), 2, False), 2
    )


def end_all(process: subprocess.Popen[str]) -> None:
    """A launcher that is still there ends its ranks, if it may; then the rest of them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if number == signal.SIGKILL or process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


def kill_when(process: subprocess.Popen[str], is_time: Callable[[], bool], over: threading.Event) -> None:
    while not over.wait(0.002):
        if is_time():
            process.kill()
            return


PORTS: list[str] = []  # drawn by this test


def free_port() -> str:
    from run_port import free_port as draw

    PORTS.append(str(draw()))
    return PORTS[-1]


def drop_shared_memory() -> int:
    """What runs on our ports have left in /dev/shm; how many files it was."""
    from run_port import buffers, drop_buffers

    left = sum(len(buffers(port)) for port in PORTS)
    for port in PORTS:
        drop_buffers(port)
    return left


@pytest.fixture(autouse=True)
def shared_memory() -> Iterator[None]:
    yield
    drop_shared_memory()
    PORTS.clear()  # from here on they may be another job's


def moved_from_drive(output: str) -> float:
    """GB that full_finetune.py saw itself read, over all its steps."""
    return sum(float(value) for value in re.findall(r" read (\S+) write", output))
