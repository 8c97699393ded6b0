"""The plan that `penstock plan` shows before a run is the one that the run carries out, tensor for tensor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA, Runner, free_port, full_finetune_config, grpo_config
from lora_options import lora_options
from test_emitted_config import BINARY

SMALL = {
    "self_attn.q_proj": (512, 512),
    "self_attn.k_proj": (512, 256),
    "self_attn.v_proj": (512, 256),
    "self_attn.o_proj": (512, 512),
    "mlp.gate_proj": (512, 2048),
    "mlp.up_proj": (512, 2048),
    "mlp.down_proj": (2048, 512),
}


def planned(model: Path, config: dict[str, Any], directory: Path, *options: str, **environment: str) -> dict[str, Any]:
    file = directory / "planned.json"
    file.write_text(json.dumps(config))
    done = subprocess.run(
        [BINARY, "plan", model, "--config", file, "--json", "--verbose", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def places(tensors: list[dict[str, Any]]) -> dict[str, tuple[int, str]]:
    return {tensor["name"]: (tensor["bytes"], tensor["place"]) for tensor in tensors}


def swapped(plan: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """What the engine has: all but what DeepSpeed keeps where it is."""
    ours = {"class", "dedicated", "stream"}
    listed = [*plan["tensors"], *plan["states"]]
    return places([t for t in listed if t["place"] in ours or "ram_bytes of" in t["why"] or "rule" in t["why"]])


def compare(plan: dict[str, Any], run: dict[str, Any]) -> None:
    assert swapped(plan) == places(run["tensors"])
    for key in ("pinned_bytes", "ram_bytes", "nvme_bytes", "peak_live_bytes"):
        assert plan[key] == run[key], key


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"ram_bytes": 0}, id="nothing in RAM"),
        pytest.param({"ram_bytes": "40MiB"}, id="some in RAM", marks=pytest.mark.deep),
        pytest.param(
            {"ram_bytes": "40MiB", "tensors": [{"match": "sub-group 0 master", "place": "ram"}]},
            id="a rule for a state",
            marks=pytest.mark.deep,
        ),
        pytest.param(
            {"ram_bytes": 0, "optimizer_states": "8bit", "fp32_states": ["*o_proj*"]},
            id="narrow states",
        ),
        pytest.param({}, id="as the file is", marks=pytest.mark.deep),
    ],
)
def test_full_finetuning(runner: Runner, small_model: Path, swap: Path, tmp_path: Path, block: dict[str, Any]) -> None:
    config = full_finetune_config(swap, zero_optimization__sub_group_size=3e6, **({"penstock": block} if block else {}))
    run = runner.full_finetune(small_model, config, 2)
    assert run.returncode == 0, run.output
    compare(planned(small_model, config, tmp_path, "--trainable", "all"), runner.stats()["plan"])


def test_full_finetuning_on_a_device(runner: Runner, small_model: Path, swap: Path, tmp_path: Path) -> None:
    """A quarter of the pinned memory is the device's: what the rest does not hold has another place."""
    device = {"PENSTOCK_DEVICE": "host:0"}
    block = {"ram_bytes": 0, "max_pinned_bytes": "12MiB"}
    config = full_finetune_config(swap, zero_optimization__sub_group_size=3e6, penstock=block)
    arguments = [str(small_model), runner.config(config), "2"]
    run = runner.script(DATA / "full_finetune.py", arguments, **device)
    assert run.returncode == 0, run.output
    plan = planned(small_model, config, tmp_path, "--trainable", "all", **device)
    assert plan["device_pinned_bytes"] == 3 << 20
    compare(plan, runner.stats()["plan"])
    on_host = planned(small_model, config, tmp_path, "--trainable", "all", PENSTOCK_DEVICE="")
    assert on_host["pinned_bytes"] > plan["pinned_bytes"]


@pytest.mark.deep
def test_what_moves_into_ram_leaves_no_pinned_memory(
    runner: Runner, small_model: Path, swap: Path, tmp_path: Path
) -> None:
    """All parameters do, behind `max_in_cpu`, so that nothing uses the engine any more."""
    offload = {"offload_param__max_in_cpu": 10**9, "offload_optimizer": {"device": "cpu"}}
    changes = {f"zero_optimization__{key}": value for key, value in offload.items()}
    config = full_finetune_config(swap, penstock={"ram_bytes": 0}, **changes)
    run = runner.full_finetune(small_model, config, 2)
    assert run.returncode == 0, run.output
    stats = runner.stats()
    compare(planned(small_model, config, tmp_path, "--trainable", "all"), stats["plan"])
    assert stats["stats"]["pinned_bytes"] == 0 < stats["stats"]["tensor_read_bytes"]


@pytest.mark.deep
@pytest.mark.parametrize("has_narrow_states", [False, True], ids=["states of fp32", "states of bf16"])
def test_masters_of_16_bits(
    runner: Runner, small_model: Path, swap: Path, tmp_path: Path, has_narrow_states: bool
) -> None:
    types = {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": has_narrow_states}
    changes = {"bf16": types, "penstock": {"ram_bytes": "20MiB"}}
    config = full_finetune_config(swap, zero_optimization__sub_group_size=3e6, **changes)
    run = runner.full_finetune(small_model, config, 3)
    assert run.returncode == 0, run.output
    compare(planned(small_model, config, tmp_path, "--trainable", "all"), runner.stats()["plan"])


@pytest.mark.deep
def test_the_smallest_limit_of_the_drive_is_enough(
    runner: Runner, small_model: Path, swap: Path, tmp_path: Path
) -> None:
    drive: dict[str, Any] = {"path": str(swap), "max_bytes": 4096}
    config = full_finetune_config(swap, penstock={"ram_bytes": 0, "paths": [drive]})
    file = tmp_path / "limited.json"
    file.write_text(json.dumps(config))
    command = [BINARY, "plan", small_model, "--config", file]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1, refused.stderr
    drive["max_bytes"] = int(refused.stderr.partition("the smallest value that works is ")[2].split()[0].rstrip("."))
    run = runner.full_finetune(small_model, config, 3)
    assert run.returncode == 0, run.output
    assert runner.stats()["plan"]["nvme_bytes"] > 0


@pytest.mark.deep
@pytest.mark.parametrize(
    "optimizer",
    [
        {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True, "amsgrad": True}},
        {"type": "AdamW", "params": {"lr": 1e-4, "fp32_optimizer_states": False}},
        {"type": "Lion", "params": {"lr": 1e-4}},
        {"type": "Adagrad", "params": {"lr": 1e-4}},
        {"type": "RMSprop", "params": {"lr": 1e-4, "momentum": 0.9, "centered": True}},
        {"type": "SGD", "params": {"lr": 1e-4}},
    ],
    ids=["torch AdamW with AMSGrad", "states in the masters' type", "Lion", "Adagrad", "RMSprop", "SGD without states"],
)
def test_optimizers_without_kernels(
    runner: Runner, small_model: Path, swap: Path, tmp_path: Path, optimizer: dict[str, Any]
) -> None:
    changes = {"optimizer": optimizer, "zero_allow_untested_optimizer": True, "penstock": {"ram_bytes": "40MiB"}}
    config = full_finetune_config(swap, zero_optimization__sub_group_size=3e6, **changes)
    run = runner.full_finetune(small_model, config, 2)
    assert run.returncode == 0, run.output
    compare(planned(small_model, config, tmp_path, "--trainable", "all"), runner.stats()["plan"])


@pytest.mark.deep
@pytest.mark.parametrize(
    "block",
    [{"ram_bytes": 0}, {"ram_bytes": "20MiB"}, {"ram_bytes": 0, "optimizer_states": "4bit"}],
    ids=["nothing in RAM", "some in RAM", "narrow states"],
)
def test_two_ranks(runner: Runner, small_model: Path, swap: Path, tmp_path: Path, block: dict[str, Any]) -> None:
    config = full_finetune_config(swap, train_batch_size=2, zero_optimization__sub_group_size=3e6, penstock=block)
    script = ["-m", "penstock.deepspeed", str(DATA / "full_finetune.py"), str(small_model), runner.config(config), "2"]
    launch = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", free_port()]
    run = runner.command([sys.executable, *launch, *script], LOCAL_SIZE="2")
    assert run.returncode == 0, run.output
    plan = planned(small_model, config, tmp_path, "--trainable", "all", "--world-size", "2")
    for rank in range(2):
        compare(plan, runner.stats(rank)["plan"])


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"ram_bytes": 0}, id="nothing in RAM", marks=pytest.mark.deep),
        pytest.param({"ram_bytes": "20MiB"}, id="some in RAM"),
    ],
)
def test_grpo_with_lora(runner: Runner, small_model: Path, swap: Path, tmp_path: Path, block: dict[str, Any]) -> None:
    config = grpo_config(swap, penstock=block)
    run = runner.grpo(small_model, config, 1)
    assert run.returncode == 0, run.output
    compare(planned(small_model, config, tmp_path, *lora_options(SMALL)), runner.stats()["plan"])
