"""Features that do not work with swapped tensors are refused in one sentence before a swap file is made."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Runner, free_port, linear_config
from habit_models import Layer, Stack
from habit_process import run
from penstock.deepspeed import refusals
from penstock.errors import ConfigError, UnsupportedError
from trial import WIDTH, Trial

SCRIPT = Path(__file__).with_name("linear_training.py")

REFUSED: dict[str, dict[str, Any]] = {
    "zenflow": {"zero_optimization__zenflow": {"topk_ratio": 0.1, "select_strategy": "step", "select_interval": 1}},
    "super_offload": {"zero_optimization__offload_optimizer__super_offload": True},
    "deepcompile": {"compile__deepcompile": True},
    "zero_hpz_partition_size": {"zero_optimization__zero_hpz_partition_size": 2},
    "offload_optimizer.ratio": {"zero_optimization__offload_optimizer__ratio": 0.5},
    "zero_quantized_weights": {"zero_optimization__zero_quantized_weights": True},
    "zero_quantized_nontrainable_weights": {"zero_optimization__zero_quantized_nontrainable_weights": True},
    "zero_quantized_gradients": {"zero_optimization__zero_quantized_gradients": True},
}


def is_refused(runner: Runner, swap: Path, config: dict[str, Any], name: str, *options: str) -> None:
    run = runner.script(SCRIPT, [runner.config(config), "1", "AdamW", *options])
    assert run.returncode == 1, run.output
    sentences = re.findall(r"^penstock: .*", run.output, flags=re.M)
    assert len(sentences) == 1 and run.last_line == sentences[0], run.output
    assert (
        name in sentences[0]
        and "does not work with" in sentences[0]
        and "device cpu" in sentences[0].replace("offload_param.device to cpu", "device cpu")
    )
    assert not swap.exists()


@pytest.mark.deep
@pytest.mark.parametrize("name", REFUSED)
def test_a_feature_that_does_not_work_is_refused(runner: Runner, swap: Path, name: str) -> None:
    is_refused(runner, swap, linear_config(swap, **REFUSED[name]), name, "whole")


def test_an_engine_without_an_optimizer_has_no_checkpoints() -> None:
    from penstock.deepspeed.checkpoint.saving import refuse_other_writers

    with pytest.raises(UnsupportedError, match="without an optimizer: save the weights"):
        refuse_other_writers(SimpleNamespace(checkpoint_engine=None))


def test_a_model_built_for_nvme_without_a_configuration_is_refused() -> None:
    import torch
    from penstock.deepspeed.parameter_swapper import ParameterSwapper

    with pytest.raises(ConfigError, match="config_dict_or_path"):
        ParameterSwapper(None, torch.float32)


def test_optimizer_states_without_a_path_are_one_sentence(runner: Runner, swap: Path) -> None:
    config = linear_config(swap, zero_optimization__offload_optimizer__nvme_path=None)
    run = runner.script(SCRIPT, [runner.config(config), "1", "AdamW"])
    assert run.returncode == 1
    assert 'offload_optimizer has no "nvme_path": name a directory there' in run.last_line, run.output


def test_the_path_none_of_accelerate_is_warned_of(runner: Runner, swap: Path) -> None:
    """`accelerate launch` passes no path on, and accelerate puts this word in its place."""
    config = linear_config(swap, zero_optimization__offload_optimizer__nvme_path="none")
    run = runner.script(SCRIPT, [runner.config(config), "1", "AdamW"])
    assert run.returncode == 0, run.output
    assert run.output.count("[nvme-path-none] offload_optimizer has") == 1, run.output
    assert "Set ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH, or" in run.output


def test_a_misspelt_block_is_refused_and_a_key_beside_the_block_warned_of(runner: Runner, swap: Path) -> None:
    config = linear_config(swap, max_pinned_bytes="16MiB")
    run = runner.script(SCRIPT, [runner.config(config), "1", "AdamW"])
    assert run.returncode == 0, run.output
    assert run.output.count("[unread-key] max_pinned_bytes is a key of the penstock block") == 1, run.output
    config["penstok"] = config.pop("penstock")
    run = runner.script(SCRIPT, [runner.config(config), "1", "AdamW"])
    assert run.returncode == 1 and 'penstok in the DeepSpeed configuration is not a key; did you mean "penstock"?' in (
        run.last_line
    ), run.output


def test_it_is_refused_while_the_model_is_built(runner: Runner, swap: Path) -> None:
    is_refused(runner, swap, linear_config(swap, **REFUSED["deepcompile"]), "deepcompile")


def configuration(stage: int = 3, param: str = "cpu", optimizer: str = "cpu", **zero: Any) -> Any:
    """A DeepSpeedConfig, as far as the table reads it."""
    offload = {
        "offload_param": SimpleNamespace(device=f"OffloadDeviceEnum.{param}"),
        "offload_optimizer": SimpleNamespace(
            device=f"OffloadDeviceEnum.{optimizer}", ratio=zero.pop("ratio", 1.0), super_offload=False
        ),
    }
    return SimpleNamespace(zero_config=SimpleNamespace(stage=stage, **offload, **zero))


@pytest.mark.parametrize(
    "allowed",
    [
        configuration(zenflow={}, zero_hpz_partition_size=2),
        configuration(stage=2, optimizer="nvme", zero_quantized_gradients=True),
        configuration(optimizer="nvme", ratio=0.5, zero_hpz_partition_size=2),
        configuration(param="nvme", optimizer="nvme", zero_hpz_partition_size=1),
    ],
    ids=["nothing-on-nvme", "stage-2", "only-states-on-nvme", "plain"],
)
def test_what_works_is_not_refused(allowed: Any) -> None:
    refusals.refuse_what_cannot_be_swapped(allowed)


def test_older_versions_know_mics() -> None:
    with pytest.raises(UnsupportedError, match="mics_shard_size"):
        refusals.refuse_what_cannot_be_swapped(configuration(optimizer="nvme", mics_shard_size=2))


def layer_after_the_engine(trial: Trial, is_frozen: bool) -> None:
    import deepspeed
    import torch

    config = trial.config()
    model = Stack(2)
    engine = trial.initialize(model, config)
    trial.steps(engine, 1)
    with deepspeed.zero.Init(config_dict_or_path=config, dtype=torch.bfloat16):
        model.layers.append(Layer(WIDTH).requires_grad_(not is_frozen))
    trial.steps(engine, 2)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_layer_that_nothing_trains_is_not_taken_for_a_trained_one(
    compiled: None, tmp_path: Path, is_frozen: bool
) -> None:
    """Stock DeepSpeed ends in a "tracing error" with either."""
    outcome = run(
        functools.partial(layer_after_the_engine, is_frozen=is_frozen), tmp_path / "run", 1, False, free_port()
    )
    if is_frozen:
        assert outcome.errors == [], outcome.output
    else:
        assert "came into the model after deepspeed.initialize: no optimizer trains it" in outcome.errors[0]
