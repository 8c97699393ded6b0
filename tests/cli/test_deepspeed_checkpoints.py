"""`inspect` and `verify` of checkpoints that DeepSpeed itself has written, on the CPU.

Those in checkpoints/ are of DeepSpeed 0.19.8 on two ranks (`checkpoint_training.py DIR 3 2`). The deep run makes
its own.
"""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
from checkpoint_files import flip, records_of

SAVED = Path(__file__).with_name("checkpoints")
SCRIPT = Path(__file__).with_name("checkpoint_training.py")


def train(directory, ranks, stages):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "LOCAL_SIZE": ranks, "MASTER_ADDR": "127.0.0.1"}
    common.update(MASTER_PORT=port, DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    processes = [
        subprocess.Popen(
            [sys.executable, SCRIPT, directory, *map(str, stages)],
            env={**os.environ, **{key: str(value) for key, value in {**common, "RANK": r, "LOCAL_RANK": r}.items()}},
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for r in range(ranks)
    ]
    try:
        for process in processes:
            output, _ = process.communicate(timeout=300)
            assert process.returncode == 0, output
    finally:
        for process in processes:
            process.kill()


def check(penstock, directory, ranks, stage):
    """What penstock says is what DeepSpeed's own zero_to_fp32 reads."""
    report = penstock.json("inspect", directory)
    assert (report["zero_stage"], report["step"], report["data_parallel"]) == (stage, 3, ranks)
    assert report["resume"] == {"possible": True, "world_size": ranks if stage else None, "obstacles": []}
    assert report["missing"] == [] and all(file["problem"] is None for file in report["files"])
    tensors = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert tensors["layers.1.weight"]["dtype"] == "bf16" and tensors["scale"]["role"] == "buffer"
    states = {state["name"]: state["elements"] for state in report["states"]}
    trained = sum(24 * 24 for _ in range(4)) + 3 * 24 + 7 * 24
    assert set(states) == {"master", "exp_avg", "exp_avg_sq"}
    assert all(trained <= elements <= trained + 8 * ranks for elements in states.values())
    if stage:
        assert report["optimizer_steps"] == [3]
        expected = json.loads(directory.with_suffix(".json").read_text())
        expected["layers.0.bias"] = [24]  # which zero_to_fp32 leaves out at stage 1
        assert {name: tensor["shape"] for name, tensor in tensors.items()} == expected
        assert tensors["layers.0.bias"]["role"] == "frozen"
    verified = penstock.json("verify", directory)
    assert verified["good"] and verified["records"] == sum(file["records"] for file in report["files"])
    assert verified["without_checksums"] == []


def damage_each_file(penstock, directory):
    """A byte of one record of each file, the pickle included; all are found, and nothing else."""
    rng = random.Random(3)
    chosen = {}
    for path in sorted(directory.rglob("*.pt")):
        name, offset, size = rng.choice(list(records_of(path)))
        flip(path, offset + rng.randrange(size))
        chosen[str(path)] = name
    report = penstock.json("verify", directory, code=1)
    assert {bad["path"]: bad["record"] for bad in report["bad"]} == chosen


@pytest.mark.parametrize("stage", [2, 3])
def test_saved_by_two_ranks(penstock, tmp_path, stage):
    directory = Path(shutil.copytree(SAVED / f"stage{stage}", tmp_path / f"stage{stage}"))
    shutil.copy(SAVED / f"stage{stage}.json", tmp_path)
    check(penstock, directory, 2, stage)
    damage_each_file(penstock, directory)


@pytest.mark.deep
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_stage(penstock, tmp_path, ranks):
    pytest.importorskip("deepspeed")
    stages = (0, 1, 2, 3)
    train(tmp_path, ranks, stages)
    for stage in stages:
        check(penstock, tmp_path / f"stage{stage}", ranks, stage)
        damage_each_file(penstock, tmp_path / f"stage{stage}")
