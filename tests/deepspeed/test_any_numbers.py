"""Whatever numbers a user writes, it trains: the corners of buffer_count x buffer_size x prefetch bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Runner, full_finetune_config, grpo_config

pytestmark = pytest.mark.deep  # minutes of training

FROM_DRIVE = {"penstock__ram_bytes": 0, "penstock__max_pinned_bytes": "64MiB"}
CORNERS = [(count, size, bucket) for count in (1, 200) for size in (1e5, 2e8) for bucket in (0, 5e7)]


def numbers(count: int, size: float, bucket: float) -> dict[str, float]:
    return {
        "zero_optimization__offload_param__buffer_count": count,
        "zero_optimization__offload_param__buffer_size": size,
        "zero_optimization__stage3_prefetch_bucket_size": bucket,
    }


@pytest.mark.parametrize(("count", "size", "bucket"), CORNERS)
def test_full_finetuning(
    runner: Runner,
    small_model: Path,
    swap: Path,
    on_cpu: Callable[[int], list[tuple[str, ...]]],
    count: int,
    size: float,
    bucket: float,
) -> None:
    config = full_finetune_config(swap, **FROM_DRIVE, **numbers(count, size, bucket))
    run = runner.full_finetune(small_model, config, 2)
    assert run.returncode == 0, run.output
    assert run.values == on_cpu(2)
    assert runner.stats()["stats"]["pinned_bytes"] <= 64 << 20


@pytest.mark.parametrize(("count", "size", "bucket"), [(1, 1e5, 5e7), (200, 2e8, 0)])
def test_grpo(runner: Runner, small_model: Path, swap: Path, count: int, size: float, bucket: float) -> None:
    run = runner.grpo(small_model, grpo_config(swap, **FROM_DRIVE, **numbers(count, size, bucket)), 1)
    assert run.returncode == 0, run.output
    assert len(run.values) == 1
    assert runner.stats()["stats"]["tensor_read_bytes"] > 0
