"""Default runs of Trainer and GRPOTrainer: they save, are killed, and resume, as if they had never been killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import DATA, Run, Runner, grpo_config

pytestmark = pytest.mark.deep
SCRIPT = Path(__file__).with_name("trainer_script.py")


def _config(swap: Path | None) -> dict[str, Any]:
    offload = {"device": "cpu" if swap is None else "nvme", "nvme_path": str(swap)}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_num_steps": "auto"}},
        "zero_optimization": {
            "stage": 3,
            "sub_group_size": 3_000_000,
            "stage3_max_reuse_distance": 0,
            "offload_param": {**offload, "max_in_cpu": 0},
            "offload_optimizer": offload,
        },
    }
    if swap is not None:
        config["penstock"] = {"ram_bytes": 0, "max_pinned_bytes": "32MiB"}
    return config


def _losses(run: Run) -> list[str]:
    return [line for line in run.output.split("\n") if line.startswith("LOSS ")]


def test_killed_and_resumed(runner: Runner, compiled: None, swap: Path, tmp_path: Path) -> None:
    def train(device: Path | None, output: str, *rest: str) -> Run:
        arguments = [runner.config(_config(device)), str(tmp_path / output), "7", *rest]
        return runner.script(SCRIPT, arguments, device is not None)

    whole = train(None, "whole")
    assert whole.returncode == 0, whole.output
    killed = train(swap, "killed", "5")
    assert killed.returncode == -9, killed.output
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == ["checkpoint-2", "checkpoint-4"]
    resumed = train(swap, "killed")
    assert resumed.returncode == 0 and "ENDED 7" in resumed.output, resumed.output
    assert "checkpoint-4" in resumed.output
    assert _losses(killed) == _losses(whole)[:4] or _losses(killed) == _losses(whole)[:5]
    assert _losses(resumed) == _losses(whole)[4:]


GRPO_THAT_SAVES = (
    ('save_strategy="no"', "save_steps=1"),
    (
        "trainer.train()\n",
        "trainer.train(resume_from_checkpoint=os.path.isdir('grpo-out/checkpoint-1'))\n",
    ),
    (
        "    def on_step_begin(self, *args, **kwargs):\n",
        "    def on_step_begin(self, args, state, *rest, **kwargs):\n"
        "        if os.environ.get('DIE_AT') == str(state.global_step):\n"
        "            os.kill(os.getpid(), 9)\n",
    ),
)


def test_grpo_killed_and_resumed(
    runner: Runner, small_model: Path, swap: Path, tmp_path: Path, grpo_on_cpu: Any
) -> None:
    text = "import os\n" + (DATA / "grpo_lora.py").read_text()
    for old, new in GRPO_THAT_SAVES:
        assert old in text
        text = text.replace(old, new)
    script = tmp_path / "grpo.py"
    script.write_text(text)
    config = runner.config(grpo_config(swap, penstock__ram_bytes=0, penstock__max_pinned_bytes="16MiB"))
    killed = runner.script(script, [str(small_model), config, "2"], DIE_AT="1")
    assert killed.returncode == -9 and "penstock: saved" in killed.output, killed.output
    resumed = runner.script(script, [str(small_model), config, "2"])
    assert resumed.returncode == 0 and "penstock: loaded" in resumed.output, resumed.output
    assert resumed.values == grpo_on_cpu()[1:]
