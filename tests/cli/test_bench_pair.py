"""`pair=fio` as users see it: the keys of its result, and errors of one sentence."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cli_support import assert_one_sentence

KEYS = ("ratio_median", "ratio_iqr", "ratio_low", "ratio_high", "cpu_ratio_median", "cpu_ratio_low", "cpu_ratio_high")


def job(directory, *more):
    # fio counts CPU time in ticks: a smaller job may have none of it
    return [
        "bench", "--name=p", f"--directory={directory}", "--rw=read", "--bs=1m", "--size=64m",
        "--ioengine=threads", "--iodepth=2", "--pair=fio", *more,
    ]  # fmt: skip


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_a_pair(penstock, tmp_path):
    done = penstock(*job(tmp_path, "--pairs=2", "--output-format=json"))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["jobs"][0]
    assert result["read"]["io_bytes"] == 64 << 20
    pair = result["pair"]
    assert pair["peer"] == "fio" and pair["pairs"] == 2
    assert len(pair["ratios"]) == len(pair["cpu_ratios"]) == 2
    assert all(pair[key] >= 0 for key in KEYS)
    assert "--iodepth=2" in pair["peer_settings"]


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_the_text_has_both_ratios(penstock, tmp_path):
    done = penstock(*job(tmp_path, "--pairs=2"))
    assert done.returncode == 0, done.stderr
    assert "bandwidth " in done.stdout and "CPU a byte " in done.stdout and "of fio's" in done.stdout


def test_no_fio(penstock, tmp_path):
    done = penstock(*job(tmp_path, "--pairs=1"), env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert_one_sentence(done, "fio is not installed", "apt-get install fio")


def test_an_interruption_ends_fio(penstock, tmp_path, write):
    fio = Path(write("fio", f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n"))
    fio.chmod(0o755)
    process = subprocess.Popen(
        [penstock.binary, *job(tmp_path, "--output-format=json")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert json.loads(output)["jobs"][0]["interrupted"] is True
    assert not Path(f"/proc/{int(pid.read_text())}").exists()


def test_a_directory_that_is_not_there(penstock, tmp_path):
    done = penstock(*job(tmp_path / "none", "--pairs=1"))
    assert done.returncode == 1
    assert_one_sentence(done, "none/p.0.0: No such file or directory")


def test_a_job_that_no_peer_can_do(penstock, tmp_path):
    done = penstock(*job(tmp_path, "--ioengine=null"))
    assert done.returncode == 2
    assert_one_sentence(done, "ioengine=null")


def has_deepspeed(binary):
    """In the python that the command takes: the one beside it, else that of PATH.

    DeepSpeed compiles its handle when it is first wanted, which takes minutes.
    """
    beside = Path(binary).resolve().parent / "python"
    python = str(beside) if beside.exists() else shutil.which("python3")
    load = "from deepspeed.ops.op_builder import AsyncIOBuilder; AsyncIOBuilder().load(verbose=False)"
    environment = {**os.environ, "DS_ACCELERATOR": "cpu"}
    done = subprocess.run([python, "-c", load], capture_output=True, check=False, timeout=1200, env=environment)
    return done.returncode == 0


MODEL = {
    "tensors": [
        {"name": f"layers.{i}.weight", "dtype": "bf16", "shape": [512 * (1 + i % 3), 1024], "role": "param"}
        for i in range(7)
    ]
}
MODEL_BYTES = sum(tensor["shape"][0] * 1024 * 2 for tensor in MODEL["tensors"])


@pytest.mark.deep
@pytest.mark.async_io
@pytest.mark.parametrize(("phase", "written"), [("forward", 0), ("train", 7)])
def test_deepspeeds_swappers(penstock, tmp_path, write, phase, written):
    """A step writes the parameters, and states that are six times as many bytes."""
    if not has_deepspeed(penstock.binary):
        pytest.skip("no DeepSpeed in the command's python")
    config = write(
        "ds.json",
        {
            "bf16": {"enabled": True},
            "optimizer": {"type": "AdamW"},
            "zero_optimization": {
                "stage": 3,
                "sub_group_size": 3_000_000,
                "offload_param": {"device": "nvme", "nvme_path": str(tmp_path)},
                "offload_optimizer": {"device": "nvme", "nvme_path": str(tmp_path)},
            },
        },
    )
    done = penstock(
        "bench", "--name=p", "--workload=swap", f"--inventory={write('model.json', MODEL)}", f"--phase={phase}",
        f"--config={config}", f"--directory={tmp_path}", "--pair=deepspeed", "--pairs=1", "--output-format=json",
        "--ram=0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["jobs"][0]
    assert result["write"]["io_bytes"] == written * MODEL_BYTES
    assert result["pair"]["peer"] == "deepspeed"
    assert result["pair"]["peer_settings"].startswith("swappers, aio {")
    assert not list(tmp_path.glob("deepspeed-*"))


def test_work_that_deepspeeds_swappers_do_not_know(penstock, tmp_path, write):
    done = penstock(
        "bench", "--name=p", "--workload=swap", f"--inventory={write('model.json', MODEL)}", "--runtime=1",
        f"--directory={tmp_path}", "--pair=deepspeed", "--time_based",
    )  # fmt: skip
    assert done.returncode == 2
    assert_one_sentence(done, "runtime")
