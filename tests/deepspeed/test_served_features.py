"""Features of DeepSpeed beside plain training: with swapped tensors the same digits as with device cpu."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Runner, free_port, linear_config

pytestmark = pytest.mark.deep
SCRIPT = Path(__file__).with_name("linear_training.py")


def steps(output: str) -> list[str]:
    return sorted(re.findall(r"STEP \d+ rank \d+ loss \S+ weights [-+.e\d]+", output))


def values(runner: Runner, config: dict[str, Any], penstock: bool, *options: str) -> list[str]:
    run = runner.script(SCRIPT, [runner.config(config), "3", *options], penstock)
    assert run.returncode == 0, run.output
    return steps(run.output)


def test_adagrad_of_torch(runner: Runner, swap: Path) -> None:
    """DeepSpeed constructs it again when the masters are swapped out already."""
    expected = values(runner, linear_config(None), False, "Adagrad")
    assert len(expected) == 3 and values(runner, linear_config(swap), True, "Adagrad") == expected
    assert runner.stats()["stats"]["tensor_read_bytes"] > 0


def test_a_part_of_the_sub_groups_on_the_device(runner: Runner, swap: Path) -> None:
    """`ratio` 0.5: half of the sub-groups is stepped on the device and is not swapped, the other half is."""
    changes = {
        "zero_optimization__offload_optimizer__ratio": 0.5,
        "zero_optimization__offload_param__device": "cpu",
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
    }
    expected = values(runner, linear_config(None, **changes), False, "", "4", "device")
    assert len(expected) == 3
    assert values(runner, linear_config(swap, **changes), True, "", "4", "device") == expected
    half = runner.stats()["stats"]["tensor_write_bytes"]
    changes["zero_optimization__offload_optimizer__ratio"] = 1.0
    values(runner, linear_config(swap, **changes), True, "", "4", "device")
    assert 0 < half < 0.6 * runner.stats()["stats"]["tensor_write_bytes"]


def test_secondary_partitions_of_parameters_in_memory(runner: Runner, swap: Path) -> None:
    """hpZ on two ranks, states on NVMe."""
    changes = {
        "zero_optimization__zero_hpz_partition_size": 2,
        "zero_optimization__offload_param__device": "none",
    }
    found = []
    for config, module in (
        (linear_config(None, **changes), []),
        (linear_config(swap, **changes), ["-m", "penstock.deepspeed"]),
    ):
        launch = ["torchrun", "--nproc_per_node", "2", "--master_port", free_port(), *module]
        run = runner.command([*launch, str(SCRIPT), runner.config(config), "3", "AdamW"], LOCAL_SIZE="2")
        assert run.returncode == 0, run.output
        found.append(steps(run.output))
    assert len(found[0]) == 6 and found[0] == found[1]
    assert runner.stats(1)["stats"]["tensor_read_bytes"] > 0
