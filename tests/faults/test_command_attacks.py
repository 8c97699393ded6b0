"""Attacks on verbs that take their time: import, verify, export, plan, tune, bench.

They succeed, or end with exit status 1 and one sentence, and what was published is there afterwards.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Row
from memory_group import MemoryGroup
from seccomp_filter import CALLS, CLONE3, TMPFILE, refusing, unavailable
from test_command import BINARY, built, refused, run

__all__ = ["built"]

MIB = 1 << 20
Done = subprocess.CompletedProcess[str]


def checkpoint(path: Path, value: int, tensors: int = 5, tensor_bytes: int = 200_000) -> Path:
    """Tensors of one value; zeros are a hole in the file."""
    header = {
        f"t{i}": {"dtype": "U8", "shape": [tensor_bytes], "data_offsets": [i * tensor_bytes, (i + 1) * tensor_bytes]}
        for i in range(tensors)
    }
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if value:
            for _ in range(tensors):
                file.write(bytes([value]) * tensor_bytes)
        else:
            file.truncate(8 + len(text) + tensors * tensor_bytes)
    return path


def values_in(path: Path) -> set[int]:
    """What checkpoint() was given, read from what export wrote."""
    whole = path.read_bytes()
    return set(whole[8 + struct.unpack("<Q", whole[:8])[0] :])


def clear(done: Done) -> bool:
    """Whether it went well; if not, it must have said why in one sentence."""
    if done.returncode != 0:
        refused(done)
        assert len(done.stderr.splitlines()) == 1 and len(done.stderr) > 20, done.stderr
    return done.returncode == 0


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "old.safetensors", 1)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "new.safetensors", 2)


@pytest.fixture
def store(old: Path, tmp_path: Path) -> Path:
    assert clear(run("import", old, tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def stands(tmp_path: Path) -> Callable[[Path], set[int]]:
    """The values in a store, every byte of which is proved."""
    numbers = itertools.count()

    def read(store: Path) -> set[int]:
        target = tmp_path / f"stands-{next(numbers)}.safetensors"
        assert clear(run("verify", store)) and clear(run("export", store, target))
        return values_in(target)

    return read


# --- Memory, quotas, clocks ---------------------------------------------------------------------


def test_a_limit_on_memory(row: Row, memory_limit: Callable[[int], MemoryGroup], tmp_path: Path) -> None:
    row.fault("memory limit of a container", "control group of 128 MiB, checkpoint of 600 MiB")
    group = memory_limit(128 * MIB)
    large = checkpoint(tmp_path / "large.safetensors", 0, 6, 100 * MIB)
    for arguments in (
        ("import", large, tmp_path / "store"),
        ("verify", tmp_path / "store"),
        ("export", tmp_path / "store", tmp_path / "out.safetensors"),
    ):
        assert clear(run(*arguments, preexec_fn=group.join)), arguments[0]
    assert group.killed() == 0
    assert (tmp_path / "out.safetensors").stat().st_size > 600 * MIB
    row.happened("`import`, `verify`, `export`: all succeeds", "yes")


def test_a_quota(row: Row, store: Path, new: Path, stands: Callable[[Path], set[int]]) -> None:
    row.fault("quota exceeded", "fallocate fails with EDQUOT, by seccomp")
    if unavailable():
        pytest.skip(unavailable())
    for arguments in (("import", new, store), ("export", store, store.parent / "out.safetensors")):
        refused(run(*arguments, preexec_fn=refusing("fallocate", errno.EDQUOT)), "Disk quota exceeded")
    assert stands(store) == {1} and not (store.parent / "out.safetensors").exists()
    row.happened("`import`, `export`: exit status 1, Disk quota exceeded", "yes")


# Steps in mounts of one's own: each a command, whose exit is printed.
STEPS = """
import json, subprocess, sys
def step(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return [done.returncode, done.stderr]
"""


def ends(done: Done) -> list[Done]:
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout.splitlines()[-1])
    return [subprocess.CompletedProcess([], code, "", text) for code, text in steps]


def test_a_real_quota(in_own_mounts: Callable[..., Done], old: Path, tmp_path: Path) -> None:
    """Few kernels have what it takes, so the table has the row above."""
    large = checkpoint(tmp_path / "large.safetensors", 2, 5, 4 * MIB)
    inside, image = tmp_path / "drive/inside", tmp_path / "image"
    script = tmp_path / "steps.py"
    script.write_text(f"""{STEPS}
print(json.dumps([step({str(BINARY)!r}, *command) for command in (
    ("import", {str(old)!r}, {str(inside / "store")!r}), ("import", {str(large)!r}, {str(inside / "store")!r}),
    ("verify", {str(inside / "store")!r}))]))
""")
    mount = (
        f"PATH=$PATH:/usr/sbin; truncate -s 64M {image}; mkfs.ext4 -q -m 0 -O quota,project "
        f"-E quotatype=prjquota {image}; mount -o loop,prjquota {image} {{drive}}; mkdir {inside}; "
        f"chattr +P -p 7 {inside}; setquota -P 7 0 8192 0 0 {{drive}}"
    )
    first, second, third = ends(in_own_mounts(mount, [sys.executable, script]))
    assert clear(first) and clear(third)
    refused(second, "quota")


def test_a_calendar_that_jumps(row: Row, old: Path, tmp_path: Path, jumping_clock: dict[str, str]) -> None:
    row.fault("calendar set forward and back", "CLOCK_REALTIME jumps by years at every look, by LD_PRELOAD")
    for arguments in (
        ("import", old, tmp_path / "store"),
        ("import", old, tmp_path / "store"),
        ("verify", tmp_path / "store"),
        ("inspect", tmp_path / "store"),
        ("export", tmp_path / "store", tmp_path / "out.safetensors"),
        ("bench", "--name=x", f"--directory={tmp_path}", "--rw=write", "--bs=64k", "--size=4m", "--runtime=1"),
    ):
        assert clear(run(*arguments, env=os.environ | jumping_clock)), arguments[0]
    assert values_in(tmp_path / "out.safetensors") == {1}
    row.happened("`import`, `verify`, `export`, `bench`: all succeeds", "yes")


# --- Drives -------------------------------------------------------------------------------------


def in_three_steps(old: Path, large: Path, store: Path, out: Path) -> str:
    """The old contents are there, the large ones do not go in, the old ones are whole and come out again."""
    return f"""
b, store = {str(BINARY)!r}, {str(store)!r}
print(json.dumps([step(b, "import", {str(old)!r}, store), step("sync", "-f", store),
    step(b, "import", {str(large)!r}, store), step(b, "verify", store), step(b, "export", store, {str(out)!r})]))
"""


def test_a_drive_that_promised_more_than_it_has(
    row: Row, in_own_mounts: Callable[..., Done], old: Path, tmp_path: Path
) -> None:
    row.fault("drive that promised more than it has", "ext4 of 64 MiB on a loop device over a tmpfs of 12 MiB")
    large, out = checkpoint(tmp_path / "large.safetensors", 2, 5, 4 * MIB), tmp_path / "out.safetensors"
    script = tmp_path / "steps.py"
    script.write_text(STEPS + in_three_steps(old, large, tmp_path / "drive/fs/store", out))
    mount = (
        "mount -t tmpfs -o size=12m none {drive}; PATH=$PATH:/usr/sbin; truncate -s 64M {drive}/image; "
        "mkfs.ext4 -q -m 0 {drive}/image; mkdir {drive}/fs; mount -o loop {drive}/image {drive}/fs"
    )
    steps = ends(in_own_mounts(mount, [sys.executable, script]))
    refused(steps[2], "drive/fs/store")  # EIO, ENOSPC or EROFS: as the kernel finds it out
    assert [step.returncode for step in steps] == [0, 0, 1, 0, 0], [step.stderr for step in steps]
    assert values_in(out) == {1}
    row.happened("`import`: exit status 1, one sentence that names the file; `verify`, `export`: succeed", "yes")


def test_a_drive_that_fails_under_device_mapper(in_own_mounts: Callable[..., Done], old: Path, tmp_path: Path) -> None:
    """Every request fails from one moment on. Few kernels have it, so the table has the row above."""
    if shutil.which("dmsetup", path="/usr/sbin:/sbin:" + os.environ.get("PATH", "")) is None:
        pytest.skip("no dmsetup(8)")
    name, image, store = f"penstock-test-{os.getpid()}", tmp_path / "image", tmp_path / "drive/store"
    script = tmp_path / "steps.py"
    script.write_text(f"""{STEPS}
b, store = {str(BINARY)!r}, {str(store)!r}
steps = [step(b, "import", {str(old)!r}, store), step("sync", "-f", store),
    step("dmsetup", "wipe_table", "--noflush", {name!r}), step(b, "verify", store),
    step(b, "export", store, {str(tmp_path / "out.safetensors")!r}), step(b, "import", {str(old)!r}, store)]
step("umount", "--lazy", {str(tmp_path / "drive")!r})
step("dmsetup", "remove", "--force", "--retry", {name!r})
step("sh", "-c", "losetup -j {image} -O NAME -n | xargs losetup -d")
print(json.dumps(steps))
""")
    mount = (
        "export PATH=$PATH:/usr/sbin:/sbin; dmsetup version; "
        f"truncate -s 64M {image}; loop=$(losetup -f --show {image}); "
        f'dmsetup create {name} --table "0 131072 linear $loop 0"; mkfs.ext4 -q -m 0 /dev/mapper/{name}; '
        f"mount /dev/mapper/{name} {{drive}}"
    )
    steps = ends(in_own_mounts(mount, [sys.executable, script]))
    assert [step.returncode for step in steps] == [0, 0, 0, 1, 1, 1], [step.stderr for step in steps]
    for step in steps[3:]:
        refused(step, str(store))


# --- System calls that are refused --------------------------------------------------------------


def test_every_call_refused_in_turn(
    row: Row, store: Path, new: Path, tmp_path: Path, stands: Callable[[Path], set[int]]
) -> None:
    row.fault(f"one of {len(CALLS) + 1} system calls denied by seccomp", "it fails with EPERM or ENOSYS")
    if unavailable():
        pytest.skip(unavailable())
    copy, target = tmp_path / "copy", tmp_path / "target.safetensors"
    refusals = 0
    for call, error in itertools.product((TMPFILE, *CALLS), (errno.EPERM, errno.ENOSYS)):
        deny = {"preexec_fn": refusing(call, error)}
        shutil.copytree(store, copy)
        exported = clear(run("export", copy, target, **deny))
        # Where it cannot say that the name is safe, the name may be there, and what it stands for is whole.
        assert values_in(target) == {1} if target.exists() else not exported, (call, error)
        renewed = clear(run("import", new, copy, **deny))
        # Some refusals come after all is published: of the contents file, which cannot be cut to its length.
        assert stands(copy) in ([{2}] if renewed else [{1}, {2}]), (call, error)
        verified = clear(run("verify", copy, **deny))
        clear(run("import", new, tmp_path / "first", **deny))
        assert clear(run("import", new, tmp_path / "first")), "what a refusal left is no obstacle"
        assert stands(tmp_path / "first") == {2}
        refusals += [exported, renewed, verified].count(False)
        for left in (copy, tmp_path / "first"):
            shutil.rmtree(left)
        target.unlink(missing_ok=True)
    assert refusals > 10, "the filter refuses something"
    row.happened("`import`, `export`, `verify`: exit status 0, or 1 and one sentence", "yes")


@pytest.fixture
def tuning(tmp_path: Path) -> Callable[[Path], list[str | Path]]:
    """The shortest `tune` of a model whose tensors all go to the drive."""
    matrices = [{"name": f"l.{i}.w", "dtype": "bf16", "shape": [1024, 1024], "role": "param"} for i in range(24)]
    (tmp_path / "model.json").write_text(json.dumps({"tensors": matrices}))

    def arguments(place: Path) -> list[str | Path]:
        on_drive = {"device": "nvme", "nvme_path": str(place)}
        config: dict[str, Any] = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
        config["zero_optimization"].update(offload_param=on_drive, offload_optimizer=on_drive)
        place.with_suffix(".ds.json").write_text(json.dumps(config))
        rest = ["--time-budget", "5s", "--memory", "24GiB", "-o", place.with_suffix(".out.json")]
        return ["tune", tmp_path / "model.json", "--config", place.with_suffix(".ds.json"), *rest]

    return arguments


def test_tuning_with_a_call_refused(row: Row, tmp_path: Path, tuning: Callable[[Path], list[str | Path]]) -> None:
    calls = (TMPFILE, "fallocate", "fdatasync", "fsync", "ftruncate", "io_uring_setup", "io_setup", "statx")
    row.fault(f"one of {len(calls)} system calls denied by seccomp while measuring", "it fails with EPERM")
    if unavailable():
        pytest.skip(unavailable())

    def tune(call: str) -> tuple[str, Path, Done]:
        place = tmp_path / call.replace(" ", "-")
        place.mkdir()
        return call, place, run(*tuning(place), preexec_fn=refusing(call, errno.EPERM))

    with ThreadPoolExecutor(len(calls)) as side_by_side:
        for call, place, done in side_by_side.map(tune, calls):
            assert clear(done) == place.with_suffix(".out.json").exists(), call
            assert list(place.iterdir()) == [], f"{call}: what is left of it"
    row.happened("`tune`: exit status 0, or 1 and one sentence; nothing is left on the drive")


def test_a_benchmark_that_may_not_start_a_thread(tmp_path: Path) -> None:
    if unavailable():
        pytest.skip(unavailable())
    jobs = [f"--directory={tmp_path}", "--name=x", "--rw=write", "--bs=4k", "--size=1m", "--numjobs=4"]
    done = run("bench", *jobs, preexec_fn=refusing(CLONE3, errno.EPERM))
    assert done.returncode == 1 and "cannot start a thread of the benchmark" in done.stderr, done.stderr


# --- What goes away while it is used ------------------------------------------------------------


def removed_while(arguments: list[str | Path], place: Path, seen: Callable[[str], bool]) -> Done:
    """Runs a verb, and removes the directory once a file is open there that the test has been waiting for."""
    place.mkdir()
    command = [BINARY, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            if any(link.startswith(str(place)) and seen(link) for link in links_of(child.pid)):
                break
            time.sleep(0.005)
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)  # what was made meanwhile
        output, errors = child.communicate(timeout=100)
    return subprocess.CompletedProcess(command, child.returncode, output, errors)


def links_of(process: int) -> list[str]:
    links = []
    try:
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            links.append(os.readlink(descriptor))
    except OSError:
        pass  # closed meanwhile, or the process has ended
    return links


def test_a_directory_that_vanishes(row: Row, tmp_path: Path, tuning: Callable[[Path], list[str | Path]]) -> None:
    row.fault("directory removed while it is measured", "while files are laid out, and while they are used")
    for place, seen in (
        (tmp_path / "laid-out", lambda link: True),
        (tmp_path / "measured", lambda link: link.endswith("(deleted)")),
    ):
        done = removed_while(tuning(place), place, seen)
        assert clear(done) or str(place) in done.stderr, done.stderr
        assert not place.exists()
    job = ["--rw=write", "--bs=64k", "--size=64m", "--time_based", "--runtime=1"]
    for name, more in (("one", []), ("two", ["--name=y", "--stonewall", *job])):
        place = tmp_path / name
        arguments = ["bench", "--name=x", f"--directory={place}", *job, *more]
        done = removed_while([*arguments, *([f"--directory={place}"] if more else [])], place, lambda link: True)
        assert clear(done) or str(place) in done.stderr, done.stderr
    row.happened("`tune`, `bench`: exit status 0, or 1 and one sentence that names it")


# --- Input that is too much ---------------------------------------------------------------------


def bounded(bytes_max: int) -> dict[str, Any]:
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))}


def test_a_plan_of_a_million_tensors(row: Row, tmp_path: Path) -> None:
    row.fault("inventory of a million tensors", "73 MB of JSON, address space of 3 GiB")
    with (tmp_path / "model.json").open("w") as file:
        file.write('{"tensors":[')
        for i in range(1_000_000):
            name = f"layers.{i // 100}.w{i % 100}"
            file.write(f'{"," if i else ""}{{"name":"{name}","dtype":"bf16","shape":[64,64],"role":"param"}}')
        file.write("]}")
    done = run("plan", tmp_path / "model.json", "--memory", "64GiB", **bounded(3 << 30))
    assert clear(done) and "1000000 tensors" in done.stdout.replace(",", ""), done.stdout[:400]
    row.happened("`plan`: succeeds")


def test_a_plan_that_memory_does_not_suffice_for(tmp_path: Path) -> None:
    tensors = [{"name": f"t{i}", "dtype": "bf16", "shape": [64, 64], "role": "param"} for i in range(100_000)]
    (tmp_path / "model.json").write_text(json.dumps({"tensors": tensors}))
    for mebibytes in range(24, 96, 8):
        done = run("plan", tmp_path / "model.json", "--memory", "64GiB", **bounded(mebibytes * MIB))
        assert clear(done) or "memory" in done.stderr, (mebibytes, done.stderr)


def test_input_that_is_too_much(row: Row, tmp_path: Path) -> None:
    row.fault("configuration of 200 MB, or 16 million levels deep", "address space of 512 MiB")
    model, config = tmp_path / "model.json", tmp_path / "ds.json"
    model.write_text('{"tensors":[{"name":"w","dtype":"bf16","shape":[64,64],"role":"param"}]}')
    for text in ('{"x":[' + "1," * 100_000_000 + "1]}", "[" * 16_000_000, '{"a":' * 3_000_000):
        config.write_text(text)
        refused(run("plan", model, "--config", config, **bounded(512 << 20)), str(config))
    row.happened("`plan`: exit status 1, one sentence that names the file")
