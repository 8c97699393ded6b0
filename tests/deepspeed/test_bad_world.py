"""A mistake in the file or a fault of the world is one clear error, exit status 1, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DATA, Run, Runner, free_port, full_finetune_config

pytestmark = pytest.mark.deep  # minutes of training

FROM_DRIVE = {"penstock__ram_bytes": 0, "penstock__max_pinned_bytes": "16MiB"}
ORDINARY_USER = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def refused(run: Run, *parts: str) -> None:
    """Exit status 1 and a last line that says all of this."""
    assert run.returncode == 1, run.output
    assert run.last_line.startswith("penstock: "), run.output
    assert run.output.count("\npenstock: ") - run.output.count("\npenstock: warning: ") == 1, run.output
    assert "Exception ignored" not in run.output
    for part in parts:
        assert part in run.last_line, run.last_line


def test_a_misspelt_key(runner: Runner, small_model: Path, swap: Path) -> None:
    config = full_finetune_config(swap, penstock__ram_byte=0)
    refused(runner.full_finetune(small_model, config), "ram_byte", "ram_bytes")


def test_a_durable_store_is_not_trained_on(runner: Runner, small_model: Path, swap: Path) -> None:
    config = full_finetune_config(swap, penstock__mode="durable")
    refused(runner.full_finetune(small_model, config), "durable", "scratch")


def test_a_file_in_the_way(runner: Runner, small_model: Path, swap: Path) -> None:
    swap.write_text("mine")
    refused(runner.full_finetune(small_model, full_finetune_config(swap)), str(swap))
    assert swap.read_text() == "mine"


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """Where a test mounts something; unmounted behind it."""
    where = tmp_path / "mount"
    where.mkdir()
    yield where
    subprocess.run(["umount", "--lazy", where], capture_output=True, check=False)


def mount_or_skip(*arguments: str | Path) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")


def file_system(mount: Path, mebibytes: int, *options: str) -> Path:
    """An ext4 of so many MiB at `mount`; returns the file that backs it."""
    backing = mount.parent / "backing"
    with backing.open("wb") as file:
        file.truncate(mebibytes << 20)
    mkfs = shutil.which("mkfs.ext4") or "/usr/sbin/mkfs.ext4"
    if not os.path.exists(mkfs):
        pytest.skip("no mkfs.ext4")
    subprocess.run([mkfs, "-q", "-m", "0", *options, backing], check=True, capture_output=True)
    mount_or_skip("-o", "loop", backing, mount)
    return backing


def shrink_drive(backing: Path, mount: Path, size: int) -> str:
    """The shell command that ends the drive at `size` bytes: what lies behind can be neither read nor written.

    Truncating the file alone would not do: a write on its way makes it longer again, and holes are read as zeros.
    """
    drive = subprocess.run(["findmnt", "-n", "-o", "SOURCE", mount], check=True, capture_output=True, text=True)
    name = drive.stdout.strip()
    return (
        f"for _ in $(seq 100); do truncate -s {size} {backing}; losetup -c {name}; "
        f"[ $(blockdev --getsize64 {name}) = {size} ] && break; done"
    )


def is_empty(mount: Path) -> bool:
    return set(os.listdir(mount)) <= {"lost+found", "swap"} and not any((mount / "swap").glob("**/*"))


@as_root
def test_a_read_only_mount(runner: Runner, small_model: Path, mount: Path) -> None:
    mount_or_skip("-t", "tmpfs", "-o", "ro", "none", mount)
    config = full_finetune_config(mount / "swap")
    refused(runner.full_finetune(small_model, config), str(mount / "swap"), "Read-only file system")


@pytest.fixture
def users_home() -> Iterator[Path]:
    """A directory that an ordinary user owns and can reach; pytest's own are closed to others."""
    home = Path(tempfile.mkdtemp(dir=os.environ.get("PENSTOCK_TMP")))
    home.chmod(0o755)
    os.chown(home, ORDINARY_USER, ORDINARY_USER)
    yield home
    shutil.rmtree(home)


@as_root
def test_another_users_directory(runner: Runner, small_model: Path, users_home: Path) -> None:
    mine = users_home / "mine"
    mine.mkdir(mode=0o700)  # root's
    shutil.copytree(small_model, users_home / "model")
    config = users_home / "ds_config.json"
    config.write_text(json.dumps(full_finetune_config(mine / "swap")))
    home = str(users_home)
    caches = dict.fromkeys(("HOME", "HF_HOME", "TRITON_CACHE_DIR", "XDG_CACHE_HOME", "TORCH_EXTENSIONS_DIR"), home)
    rank = {"LOCAL_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    as_ordinary_user: dict[str, Any] = {
        "user": ORDINARY_USER,
        "group": ORDINARY_USER,
        "extra_groups": [],
        "cwd": users_home,
        "env": {
            **runner.environment,
            **caches,
            **rank,
            "MASTER_PORT": free_port(),
            "PENSTOCK_STATS": f"{home}/stats.json",
        },
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
    }
    try:
        subprocess.run([sys.executable, "-c", "import torch, penstock"], check=True, **as_ordinary_user)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("an ordinary user cannot reach this checkout's packages")
    script = [DATA / "full_finetune.py", users_home / "model", config, "1"]
    ended = subprocess.run([sys.executable, "-m", "penstock.deepspeed", *script], check=False, **as_ordinary_user)
    refused(Run(ended.returncode, ended.stdout), str(mine), "Permission denied")
    assert list(mine.iterdir()) == []


@as_root
def test_a_full_disk(runner: Runner, small_model: Path, mount: Path) -> None:
    file_system(mount, 120)
    run = runner.full_finetune(small_model, full_finetune_config(mount / "swap", **FROM_DRIVE), 4)
    refused(run, "No space left on device", "tensor", str(mount / "swap"))
    assert is_empty(mount)


@as_root
def test_a_drive_that_cannot_be_read(runner: Runner, small_model: Path, mount: Path, tmp_path: Path) -> None:
    """The drive of all that the run has swapped ends at 8 MiB from one step to the next."""
    backing = file_system(mount, 700, "-O", "^has_journal", "-N", "64")  # what it needs itself lies before that
    script = tmp_path / "train.py"
    text = (DATA / "full_finetune.py").read_text()
    marker = "    tokens = torch.randint"
    assert marker in text
    shrink = shrink_drive(backing, mount, 8 << 20)
    script.write_text(text.replace(marker, f"    if step == 1:\n        __import__('os').system({shrink!r})\n{marker}"))
    config = full_finetune_config(mount / "swap", **FROM_DRIVE)
    run = runner.script(script, [str(small_model), runner.config(config), "4"])
    refused(run, "Input/output error", "tensor", str(mount / "swap"))
    assert "STEP 0" in run.output and "STEP 3" not in run.output
    assert is_empty(mount)


def test_a_deepspeed_that_has_moved(runner: Runner, small_model: Path, swap: Path, tmp_path: Path) -> None:
    import importlib.metadata
    import importlib.util

    origin = importlib.util.find_spec("deepspeed").origin  # type: ignore[union-attr]
    copy = tmp_path / "moved" / "deepspeed"
    shutil.copytree(Path(str(origin)).parent, copy)
    stage3 = copy / "runtime/zero/stage3.py"
    text = stage3.read_text()
    assert "self.optimizer_swapper.init_timers()" in text
    stage3.write_text(text.replace("self.optimizer_swapper.init_timers()", "self.optimizer_swapper.begin(epoch=1)"))
    arguments = [str(small_model), runner.config(full_finetune_config(swap)), "1"]
    path = f"{copy.parent}:{os.environ.get('PYTHONPATH', '')}"
    run = runner.script(DATA / "full_finetune.py", arguments, PYTHONPATH=path)
    refused(run, importlib.metadata.version("deepspeed"), "0.19.8", "optimizer_swapper.begin(epoch)")


def test_install_too_late(runner: Runner, tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text(
        "from deepspeed.runtime.swap_tensor import partitioned_param_swapper as stock\n"
        "swapper = object.__new__(stock.AsyncPartitionedParameterSwapper)\n"
        "import penstock.deepspeed\n"
        "penstock.deepspeed.install()\n"
    )
    run = runner.script(script, [], penstock=False)
    assert run.returncode == 1
    assert "CompatibilityError" in run.last_line and "too late" in run.last_line and "before the model" in run.last_line
