"""Faults as a user of the command meets them: exit status 1 and one sentence, whatever is wrong with the world."""

from __future__ import annotations

import os
import resource
import signal
import struct
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Row
from test_python import ORDINARY_USER, on_faulty_drive

BINARY = Path(os.environ.get("PENSTOCK_BINARY", ROOT / "build" / "release" / "penstock"))


@pytest.fixture(autouse=True)
def built() -> None:
    if not BINARY.is_file():
        pytest.fail(f"{BINARY} is not there: build it (cmake --build --preset release) or set PENSTOCK_BINARY")


def run(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    whole = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([BINARY, *map(str, arguments)], text=True, check=False, timeout=120, **whole)


def refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 1, (done.returncode, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.startswith("penstock: ")]
    assert len(lines) == 1, done.stderr
    for part in parts:
        assert part in lines[0], lines[0]


@pytest.mark.parametrize(
    ("fault", "made_by", "mount", "text"),
    [
        ("full disk", "tmpfs of 4 MiB, filled", "mount -t tmpfs -o size=4m none {drive}; "
         "dd if=/dev/zero of={drive}/all bs=1M count=4 status=none", "No space left on device"),
        ("read-only file system", "tmpfs mounted read-only", "mount -t tmpfs -o ro none {drive}",
         "Read-only file system"),
    ],
)  # fmt: skip
def test_drives_that_refuse(row: Row, in_own_mounts, tmp_path: Path, fault, made_by, mount, text) -> None:
    row.fault(fault, made_by)
    drive = tmp_path / "drive"
    refused(in_own_mounts(mount, [BINARY, "doctor", "--path", drive]), str(drive), text)
    row.happened(f"`doctor`: exit status 1, {text}")


@pytest.mark.parametrize(
    ("fault", "made_by", "rule", "text"),
    [
        ("EIO during a write", "FUSE drive that fails every write", "writes eio", "Input/output error"),
        ("EIO: blocks that cannot be read", "FUSE drive that fails every read", "reads eio", "Input/output error"),
        ("flipped bits", "FUSE drive that turns one bit of a block", "reads flip", "gave back other bytes"),
        ("lost writes", "FUSE drive that says done and writes nothing", "writes lost", "gave back other bytes"),
    ],
)
def test_drives_that_fail_or_lie(row: Row, in_own_mounts, tmp_path: Path, fault, made_by, rule, text) -> None:
    row.fault(fault, made_by)
    drive = tmp_path / "drive"
    mount = f"{on_faulty_drive()}; echo {rule} > {{drive}}/.faults"
    refused(in_own_mounts(mount, [BINARY, "doctor", "--path", drive]), str(drive), text)
    row.happened("`doctor`: exit status 1, one sentence that says so")


def test_no_direct_io(row: Row, in_own_mounts, tmp_path: Path) -> None:
    row.fault("file system without O_DIRECT", "ramfs")
    done = in_own_mounts("mount -t ramfs none {drive}", [BINARY, "doctor", "--path", tmp_path / "drive"])
    assert done.returncode == 0, done.stderr
    assert "direct I/O" in done.stdout
    row.happened("`doctor`: exit status 0, says so and what it costs")


def test_little_memlock_as_an_ordinary_user(row: Row, tmp_path: Path) -> None:
    row.fault("memlock of 64 KiB", "RLIMIT_MEMLOCK, as an ordinary user")

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        if os.geteuid() == 0:
            os.setgid(ORDINARY_USER)
            os.setuid(ORDINARY_USER)

    try:
        done = run("doctor", preexec_fn=prepare, cwd="/")
    except PermissionError:
        pytest.skip("an ordinary user cannot reach this checkout")
    assert done.returncode == 0, done.stderr
    assert "ulimit -l" in done.stdout or "memlock" in done.stdout
    row.happened("`doctor`: exit status 0, says what to change")


def test_few_descriptors(row: Row, tmp_path: Path) -> None:
    row.fault("no file descriptors left", "RLIMIT_NOFILE of 4 to 20")
    answers = set()
    for most in range(4, 21):
        limits = (most, most)
        done = run(
            "doctor",
            "--path",
            tmp_path,
            preexec_fn=lambda limits=limits: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
        )
        assert done.returncode in (0, 1), (most, done.returncode, done.stderr)
        assert done.returncode == 0 or "Too many open files" in done.stderr + done.stdout, done.stderr
        answers.add(done.returncode)
    assert 0 in answers
    row.happened("`doctor`: exit status 1, Too many open files; 0 from where they suffice")


def test_a_file_size_limit(row: Row, tmp_path: Path) -> None:
    row.fault("file size limit", "RLIMIT_FSIZE of 1 KiB, SIGXFSZ as it is by default")

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    refused(run("doctor", "--path", tmp_path, preexec_fn=prepare), str(tmp_path), "File too large")
    row.happened("`doctor`: exit status 1, File too large")


def test_output_that_goes_nowhere(row: Row) -> None:
    row.fault("standard output full", "/dev/full")
    with open("/dev/full", "w") as full:
        for arguments in (["doctor"], ["doctor", "--json"], ["version"]):
            refused(run(*arguments, stdout=full), "No space left on device")
    row.happened("every verb: exit status 1, No space left on device")


def test_model_files_that_are_none(row: Row, tmp_path: Path) -> None:
    row.fault("model file cut short, replaced, missing", "a safetensors header, a directory, a pipe, nothing")
    header = b'{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}'
    whole = struct.pack("<Q", len(header)) + header + bytes(8)
    cut = tmp_path / "cut.safetensors"
    for size in (0, 7, 8, 20, len(whole) - 1):
        cut.write_bytes(whole[:size])
        refused(run("plan", cut), str(cut))
    (tmp_path / "directory.safetensors").mkdir()
    os.mkfifo(tmp_path / "pipe.safetensors")
    for name in ("directory.safetensors", "pipe.safetensors", "missing.safetensors"):
        refused(run("plan", tmp_path / name), str(tmp_path / name))
    row.happened("`plan`: exit status 1, one sentence that names the file")
