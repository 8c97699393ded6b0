"""Partitions that go straight to a device, here a simulated one whose memory is the CPU's: the same digits, and no host
memory held for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DATA, Runner, full_finetune_config, grpo_config

pytestmark = pytest.mark.deep  # minutes of training

# Pinned memory that the largest tensor (16 MiB) does not fit.
FROM_DRIVE = {"penstock__ram_bytes": 0, "penstock__max_pinned_bytes": "12MiB"}
DEVICE = {"PENSTOCK_DEVICE": "host:0"}


def test_full_finetuning(
    runner: Runner, small_model: Path, swap: Path, on_cpu: Callable[[int], list[tuple[str, ...]]]
) -> None:
    config = runner.config(full_finetune_config(swap, penstock__integrity="full", **FROM_DRIVE))
    script = DATA / "full_finetune.py"
    swapped = runner.script(script, [str(small_model), config, "3"], True, **DEVICE)
    assert swapped.returncode == 0, swapped.output
    assert swapped.values == on_cpu(3)
    stats = runner.stats()["stats"]
    assert stats["to_device_bytes"] > 0
    assert stats["pinned_bytes"] <= 12 << 20
    assert stats["staging_bytes"] == 3 << 20


def test_grpo_with_lora(
    runner: Runner, small_model: Path, swap: Path, grpo_on_cpu: Callable[[], list[tuple[str, ...]]]
) -> None:
    script = DATA / "grpo_lora.py"
    for changes in ({}, FROM_DRIVE):
        config = runner.config(grpo_config(swap, **changes))
        swapped = runner.script(script, [str(small_model), config, "2"], True, **DEVICE)
        assert swapped.returncode == 0, swapped.output
        assert swapped.values == grpo_on_cpu()
        assert runner.stats()["stats"]["to_device_bytes"] > 0


def test_a_device_that_is_not_there_is_done_without(runner: Runner, small_model: Path, swap: Path) -> None:
    script = DATA / "full_finetune.py"
    config = runner.config(full_finetune_config(swap, **FROM_DRIVE))
    ended = runner.script(script, [str(small_model), config, "1"], True, PENSTOCK_DEVICE="cuda:0")
    assert ended.returncode == 0, ended.output
    assert "penstock: warning: [through-host-memory] partitions go to cuda:0 through host memory: " in ended.output
    assert runner.stats()["stats"]["to_device_bytes"] == 0
