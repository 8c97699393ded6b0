"""Training with everything swapped gives the same digits as with device cpu."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DATA, Runner, free_port, full_finetune_config, grpo_config, moved_from_drive

FROM_DRIVE = {"penstock__ram_bytes": 0, "penstock__max_pinned_bytes": "16MiB"}


def test_full_finetuning(
    runner: Runner, small_model: Path, swap: Path, on_cpu: Callable[[int], list[tuple[str, ...]]]
) -> None:
    check_full_finetuning(runner, small_model, swap, on_cpu(4))


@pytest.mark.deep
def test_checkpointing_of_activations(runner: Runner, small_model: Path, swap: Path) -> None:
    reference = runner.full_finetune(small_model, full_finetune_config(None), 4, False, "gc")
    assert reference.returncode == 0, reference.output
    check_full_finetuning(runner, small_model, swap, reference.values, "gc")


def check_full_finetuning(
    runner: Runner, small_model: Path, swap: Path, reference: list[tuple[str, ...]], *extra: str
) -> None:
    assert len(reference) == 4
    swapped = runner.full_finetune(small_model, full_finetune_config(swap, **FROM_DRIVE), 4, True, *extra)
    assert swapped.returncode == 0, swapped.output
    assert swapped.values == reference
    assert moved_from_drive(swapped.output) > 0.1, "the bytes must show in /proc/self/io"
    assert runner.stats()["stats"]["resident_bytes_max"] == 0
    by_default = runner.full_finetune(small_model, full_finetune_config(swap), 4, True, *extra)
    assert by_default.values == reference
    assert runner.stats()["stats"]["resident_bytes_max"] > 0


@pytest.mark.deep
def test_clipping_and_accumulation(runner: Runner, small_model: Path, swap: Path) -> None:
    changes = {"gradient_clipping": 0.5, "zero_optimization__offload_param__max_in_cpu": 3000000}
    reference = runner.full_finetune(small_model, full_finetune_config(None, **changes), 3, False)
    swapped = runner.full_finetune(small_model, full_finetune_config(swap, **FROM_DRIVE, **changes), 3)
    assert swapped.returncode == 0, swapped.output
    assert len(reference.values) == 3 and swapped.values == reference.values


@pytest.mark.deep
@pytest.mark.parametrize(
    "changes",
    [
        {
            "zero_optimization__offload_optimizer__pipeline_read": True,
            "zero_optimization__offload_optimizer__pipeline_write": True,
        },
        {"zero_optimization__offload_optimizer__fast_init": True},
        {"penstock__engine": "threads", "penstock__integrity": "full"},
    ],
    ids=["pipelined", "fast_init", "threads-full-integrity"],
)
def test_other_ways_through_the_swappers(
    runner: Runner, small_model: Path, swap: Path, on_cpu: Callable[[int], list[tuple[str, ...]]], changes: dict
) -> None:
    swapped = runner.full_finetune(small_model, full_finetune_config(swap, **FROM_DRIVE, **changes), 3)
    assert swapped.returncode == 0, swapped.output
    assert swapped.values == on_cpu(3)


def test_grpo_with_lora(
    runner: Runner, small_model: Path, swap: Path, grpo_on_cpu: Callable[[], list[tuple[str, ...]]]
) -> None:
    for changes in ({}, FROM_DRIVE):
        swapped = runner.grpo(small_model, grpo_config(swap, **changes))
        assert swapped.returncode == 0, swapped.output
        assert swapped.values == grpo_on_cpu()
    assert runner.stats()["stats"]["tensor_read_bytes"] > 0


@pytest.mark.deep
def test_grpo_that_generates_without_gathering(runner: Runner, small_model: Path, swap: Path, tmp_path: Path) -> None:
    """ds3_gather_for_generation: false: each layer comes from the drive for each token."""
    script = tmp_path / "generates.py"
    text = (DATA / "grpo_lora.py").read_text()
    script.write_text(text.replace("beta=0.0, seed=7)", "beta=0.0, seed=7, ds3_gather_for_generation=False)"))
    assert script.read_text() != text
    values = []
    for config, through in ((grpo_config(None), False), (grpo_config(swap, **FROM_DRIVE), True)):
        run = runner.script(script, [str(small_model), runner.config(config), "2"], through)
        assert run.returncode == 0, run.output
        values.append(run.values)
    assert len(values[0]) == 2 and values[0] == values[1]


@pytest.mark.deep
def test_a_whole_model_handed_to_initialize(runner: Runner, small_model: Path, swap: Path, tmp_path: Path) -> None:
    """zero3_init_flag: false: the model exists before DeepSpeed shards it."""
    script = tmp_path / "whole.py"
    text = (DATA / "full_finetune.py").read_text()
    script.write_text(text.replace("keep = HfDeepSpeedConfig(config)", "keep = None"))
    values = []
    for config, through in ((full_finetune_config(None), False), (full_finetune_config(swap, **FROM_DRIVE), True)):
        run = runner.script(script, [str(small_model), runner.config(config), "3"], through)
        assert run.returncode == 0, run.output
        values.append(run.values)
    assert len(values[0]) == 3 and values[0] == values[1]


@pytest.mark.deep
def test_two_ranks(runner: Runner, small_model: Path, swap: Path) -> None:
    values = []
    for config, through in ((full_finetune_config(None), False), (full_finetune_config(swap, **FROM_DRIVE), True)):
        config["train_batch_size"] = 2
        module = ["-m", "penstock.deepspeed"] if through else []
        script = [str(DATA / "full_finetune.py"), str(small_model), runner.config(config), "3"]
        run = runner.command(
            ["torchrun", "--nproc_per_node", "2", "--master_port", free_port(), *module, *script],
            LOCAL_SIZE="2",
            OMP_NUM_THREADS="1",
        )
        assert run.returncode == 0, run.output
        values.append(sorted(re.findall(r"STEP \d+ loss (\S+)", run.output)))  # two ranks may share a line
    assert len(values[0]) == 6 and values[0] == values[1]
    assert runner.stats(1)["stats"]["tensor_read_bytes"] > 0
