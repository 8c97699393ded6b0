"""The launchers that people use start penstock as they start anything else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from conftest import DATA, Runner, free_port, full_finetune_config, grpo_config

pytestmark = pytest.mark.deep  # minutes of training

FROM_DRIVE = {"penstock__ram_bytes": 0, "penstock__max_pinned_bytes": "16MiB"}
MODULE = ["-m", "penstock.deepspeed"]


def test_the_users_own_accelerate_file(runner: Runner, small_model: Path, swap: Path) -> None:
    runner.config(grpo_config(swap, **FROM_DRIVE))  # the file names ds_config.json in the working directory
    launch = ["accelerate", "launch", "--config_file", str(DATA / "accelerate-003.yaml")]
    launch += ["--main_process_port", free_port()]  # tests run side by side
    script = [str(DATA / "grpo_lora.py"), str(small_model), "ds_config.json", "1"]
    run = runner.command([*launch, *MODULE, *script])
    assert run.returncode == 0, run.output
    assert len(run.values) == 1
    assert runner.stats()["stats"]["tensor_read_bytes"] > 0


@pytest.mark.parametrize("recipe", ["accelerate-zero2.yaml", "accelerate-zero3.yaml"])
def test_recipes_with_nothing_on_a_drive(runner: Runner, small_model: Path, tmp_path: Path, recipe: str) -> None:
    script = tmp_path / "train.py"
    text = (DATA / "grpo_lora.py").read_text()
    assert "deepspeed=ds_json, " in text
    accumulation = (
        "gradient_accumulation_steps=4, max_grad_norm=1.0, " if "zero2" in recipe else ""
    )  # as the recipe says
    script.write_text(text.replace("deepspeed=ds_json, ", accumulation))
    launch = [
        "accelerate",
        "launch",
        "--config_file",
        str(DATA / recipe),
        "--num_processes",
        "1",
        "--num_machines",
        "1",
    ]
    values = []
    for module in ([], MODULE):
        port = ["--main_process_port", free_port()]
        run = runner.command([*launch, *port, *module, str(script), str(small_model), "none", "1"])
        assert run.returncode == 0, run.output
        assert ("penstock: nothing to swap" in run.output) == bool(module)
        values.append(run.values)
    assert len(values[0]) == 1 and values[0] == values[1]


def test_deepspeeds_own_launcher(runner: Runner, small_model: Path, swap: Path, tmp_path: Path) -> None:
    """It puts --local_rank before the script, which must see it as it would without us."""
    if shutil.which("deepspeed", path=runner.environment["PATH"]) is None:
        pytest.skip("no deepspeed launcher beside this python")
    script = tmp_path / "train.py"
    lines = "import sys\nprint('ARGV', sys.argv[0], [a for a in sys.argv if 'local_rank' in a], __name__)\n"
    text = (DATA / "full_finetune.py").read_text()
    # The launcher's argument comes first; the script's own are positional.
    take = "sys.argv = [a for a in sys.argv if 'local_rank' not in a]\n"
    script.write_text(lines + take + text[text.index("import atexit") :])
    config = runner.config(full_finetune_config(swap, **FROM_DRIVE))
    launch = ["deepspeed", "--num_gpus", "1", "--master_port", free_port(), "--module", "penstock.deepspeed"]
    run = runner.command([*launch, str(script), str(small_model), config, "2"], LOCAL_SIZE="1")
    assert run.returncode == 0, run.output
    assert len(re.findall(r"STEP \d+ loss", run.output)) == 2
    assert f"ARGV {script} ['--local_rank=0'] __main__" in run.output
    assert runner.stats()["stats"]["tensor_read_bytes"] > 0
