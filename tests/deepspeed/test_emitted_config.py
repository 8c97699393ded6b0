"""What `penstock tune` and `plan --emit-config` write is a configuration: stock DeepSpeed trains with it, and we do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Runner, full_finetune_config, grpo_config

pytestmark = [pytest.mark.deep, pytest.mark.async_io]

BINARY = Path(os.environ.get("PENSTOCK_BINARY", ROOT / "build" / "release" / "penstock"))
STEPS = 2


@pytest.fixture(scope="session", autouse=True)
def _handle() -> None:
    """DeepSpeed compiles its handle when it is first wanted: for minutes, which are not a run's."""
    load = "from deepspeed.ops.op_builder import AsyncIOBuilder; AsyncIOBuilder().load(verbose=False)"
    environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
    subprocess.run([sys.executable, "-c", load], capture_output=True, check=True, timeout=1200, env=environment)


def run_verb(*arguments: object) -> str:
    if not BINARY.is_file():
        pytest.fail(f"{BINARY} is not there: build it (cmake --build --preset release) or set PENSTOCK_BINARY")
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tuned(model: Path, swap: Path, given: Path) -> str:
    swap.mkdir()
    return run_verb("tune", "--path", swap, model, "--config", given, "--time-budget", "5s")


def emitted(model: Path, swap: Path, given: Path) -> str:
    return run_verb("plan", model, "--config", given, "--emit-config")


WRITERS: list[Callable[[Path, Path, Path], str]] = [tuned, emitted]


@pytest.fixture(params=WRITERS, ids=["tune", "emit-config"])
def better(
    request: pytest.FixtureRequest, small_model: Path, swap: Path, tmp_path: Path
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Writes a configuration anew for the small model, and plans with what has come of it."""

    def write(config: dict[str, Any]) -> dict[str, Any]:
        given, new = tmp_path / "given.json", tmp_path / "new.json"
        given.write_text(json.dumps(config))
        new.write_text(request.param(small_model, swap, given))
        plan = json.loads(run_verb("plan", small_model, "--config", new, "--json"))
        assert plan["feasible"] is True and plan["deepspeed_error"] is None
        return json.loads(new.read_text())

    return write


@pytest.mark.parametrize("penstock", [False, True], ids=["stock", "penstock"])
def test_full_finetuning(
    runner: Runner,
    small_model: Path,
    swap: Path,
    better: Callable[[dict[str, Any]], dict[str, Any]],
    on_cpu: Callable[[int], list[tuple[str, ...]]],
    penstock: bool,
) -> None:
    """From numbers with which stock DeepSpeed dies while it builds the model."""
    swapped = full_finetune_config(swap)
    swapped["zero_optimization"]["offload_param"].update(buffer_count=2, buffer_size=100000)
    swapped["zero_optimization"]["offload_optimizer"]["buffer_count"] = 3
    config = better(swapped)
    run = runner.full_finetune(small_model, config, STEPS, penstock)
    assert run.returncode == 0, run.output
    assert run.values == on_cpu(STEPS)


def test_lora_under_penstock(
    runner: Runner, small_model: Path, swap: Path, better: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """A file with which stock DeepSpeed dies when it generates, whatever its buffers are."""
    config = better(grpo_config(swap))
    run = runner.grpo(small_model, config, 1)
    assert run.returncode == 0, run.output
    assert len(run.values) == 1
