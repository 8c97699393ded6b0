"""Weights that are saved are those that `device: cpu` saves."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from conftest import DATA, Runner, full_finetune_config, grpo_config

pytestmark = pytest.mark.deep  # minutes of training

FROM_DRIVE = {"penstock__ram_bytes": 0, "penstock__max_pinned_bytes": "16MiB"}

SAVE_WEIGHTS = """
with deepspeed.zero.GatheredParameters(list(model.parameters())):
    model.save_pretrained("saved/pretrained")
assert engine.save_16bit_model("saved/sixteen", "weights.bin")
state = torch.load("saved/sixteen/weights.bin")
for name, tensor in sorted(state.items()):
    print("WEIGHT", name, tuple(tensor.shape), tensor.dtype, tensor.double().sum().item())
"""

SAVE_ADAPTER = '\ntrainer.save_model("saved")\n'


def with_more(script: str, more: str, where: Path) -> Path:
    extended = where / script
    extended.write_text((DATA / script).read_text() + more)
    return extended


def digests(directory: Path) -> dict[str, str]:
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(directory.rglob("*.safetensors"))
    }


def test_weights_of_full_finetuning(runner: Runner, small_model: Path, swap: Path, tmp_path: Path) -> None:
    script = with_more("full_finetune.py", SAVE_WEIGHTS, tmp_path)
    saved = []
    gather = {"zero_optimization__stage3_gather_16bit_weights_on_model_save": True}
    for config, through in (
        (full_finetune_config(None, **gather), False),
        (full_finetune_config(swap, **gather, **FROM_DRIVE), True),
    ):
        run = runner.script(script, [str(small_model), runner.config(config), "2"], through)
        assert run.returncode == 0, run.output
        weights = [line for line in run.output.split("\n") if line.startswith("WEIGHT")]
        assert len(weights) > 20
        saved.append((digests(tmp_path / "saved"), weights))
    assert len(saved[0][0]) == 1 and saved[0] == saved[1]


def test_adapter_of_grpo(runner: Runner, small_model: Path, swap: Path, tmp_path: Path) -> None:
    script = with_more("grpo_lora.py", SAVE_ADAPTER, tmp_path)
    saved = []
    for config, through in ((grpo_config(None), False), (grpo_config(swap, **FROM_DRIVE), True)):
        run = runner.script(script, [str(small_model), runner.config(config), "1"], through)
        assert run.returncode == 0, run.output
        saved.append(digests(tmp_path / "saved"))
    assert list(saved[0]) == ["adapter_model.safetensors"] and saved[0] == saved[1]
