"""What DeepSpeed's collectives leave in /dev/shm goes with the run that made it, however it ends; others' stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Runner
from run_port import SHARED_MEMORY, buffers, drop_buffers, free_port
from training_run import TrainingRun

# Leaves what DeepSpeed leaves, then ends as it is asked to.
LEAVES = """
import os, sys, time
name = "deepspeed_allreduce_buffer_%d_127.0.0.1_%s_0" % (os.getuid(), os.environ["MASTER_PORT"])
open("/dev/shm/" + name, "w").write("69 MB")
print("PORT", os.environ["MASTER_PORT"], flush=True)
if sys.argv[1] == "fails":
    raise SystemExit("no")
if sys.argv[1] == "hangs":
    time.sleep(1000)
"""
# A benchmark in a process of its own, which may be interrupted.
BENCHMARK = """
import sys
from pathlib import Path
from run_port import clean_up_when_ended
from training_run import TrainingRun
clean_up_when_ended()
TrainingRun("hangs", Path(sys.argv[1]), Path("hangs"), 1, {}, penstock=False).run(Path(sys.argv[2]))
"""

pytestmark = pytest.mark.skipif(not os.access(SHARED_MEMORY, os.W_OK), reason="no /dev/shm that can be written")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "leaves.py"
    file.write_text(LEAVES)
    return file


@pytest.fixture
def others() -> Iterator[Path]:
    """A file of another job, which may run."""
    port = free_port()
    file = SHARED_MEMORY / f"deepspeed_allreduce_buffer_{os.getuid()}_127.0.0.1_{port}_0"
    file.write_text("in use")
    yield file
    drop_buffers(port)


def port_of(output: str) -> str:
    return next(line.split()[1] for line in output.splitlines() if line.startswith("PORT "))


@pytest.mark.parametrize("how", ["ends", "fails"])
def test_a_benchmarks_run(script: Path, others: Path, tmp_path: Path, how: str) -> None:
    result = TrainingRun(how, script, Path(how), 1, {}, penstock=False).run(tmp_path)
    assert (result.returncode != 0) == (how == "fails")
    assert result.log is not None
    assert buffers(port_of(result.log.read_text())) == []
    assert others.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_benchmark_that_is_interrupted(script: Path, others: Path, tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "hangs" / "log.txt"
    command = [sys.executable, "-c", BENCHMARK, str(script), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "bench")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as benchmark:
        while not (log.exists() and "PORT" in log.read_text() and log.read_text().endswith("\n")):
            assert benchmark.poll() is None
            time.sleep(0.02)
        port = port_of(log.read_text())
        assert len(buffers(port)) == 1
        benchmark.send_signal(number)
    assert benchmark.returncode != 0
    assert buffers(port) == []
    assert others.exists()


@pytest.mark.parametrize("how", ["ends", "fails"])
def test_a_test_run(runner: Runner, script: Path, others: Path, how: str) -> None:
    run = runner.script(script, [how], penstock=False)
    assert (run.returncode != 0) == (how == "fails")
    assert run.left == 1
    assert buffers(port_of(run.output)) == []
    assert others.exists()


def test_a_port_whose_files_are_there_is_not_taken(others: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    taken = int(others.name.split("_")[-2])
    drawn = iter([taken, *range(20_000, 32_000)])

    class Draw:
        def randrange(self, *_: Any) -> int:
            return next(drawn)

    monkeypatch.setattr(random, "SystemRandom", Draw)
    assert free_port() != taken


def test_a_port_that_a_test_beside_has_noted_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("run_port.NOTES", str(tmp_path))
    first, second = (free_port() for _ in range(2))
    drawn = iter([first, second, *range(20_000, 32_000)])
    monkeypatch.setattr("random.SystemRandom.randrange", lambda *_: next(drawn))
    assert free_port() not in (first, second)
    drop_buffers(first)
    drawn = iter([second, first])
    assert free_port() == first
