"""A save that is killed, or finds the disk full, leaves the checkpoint before it, and `latest` names it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from checkpoint_player import FAULTY_DRIVE, Play, play

pytestmark = pytest.mark.deep
# Bytes of a file that fail: its front, with what torch writes by itself, and places in its records.
PLACES = [0, *(number * 2_300_001 for number in range(1, 10))]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_said_before_anything_is_written(compiled: None, tmp_path: Path) -> None:
    full = [
        f"limit:{42_000_000 + number * 3_500_000}" for number in range(10)
    ]  # 40 MB are in use, and 40 more are needed
    saves = [step for limit in full for step in (limit, "save:next")]
    after = ("train:1", "limit:200000000", "load", "train:1", "see")
    refused = Play(
        "nvme",
        str(tmp_path / "saved"),
        str(tmp_path / "swap"),
        ("train:1", "save:good", *saves, *after),
        tmpfs_bytes=1 << 28,
    )
    run = play(refused)
    plain = play(Play("nvme", str(tmp_path / "plain"), str(tmp_path / "other"), ("train:1", "train:1", "see")))
    assert run.exits == plain.exits == [0], run.output
    assert len(run.failures) == len(full), run.output
    for line in run.failures:
        assert "StorageError" in line and "saved/next was not saved: it needs 4" in line
        assert "are free: free " in line and "checkpoints before it are unchanged" in line
    assert "CLIENT [1]" in run.output, "of `latest`"
    assert run.seen("see") == plain.seen("see")


@pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="no /dev/fuse")
@pytest.mark.skipif(not FAULTY_DRIVE.exists(), reason=f"{FAULTY_DRIVE} is not built")
def test_a_drive_that_fails_on_the_way(compiled: None, tmp_path: Path) -> None:
    """It fills up while a checkpoint is being written, and cannot read what it has while one is loaded."""
    saves = [step for place in PLACES for step in (f"tell:writes enospc {place} 65536", "save:next", "tell:clear")]
    loads = [step for place in PLACES for step in (f"tell:reads eio {place} 65536", "load:good", "tell:clear")]
    steps = ("train:1", "save:good", "train:1", *saves, "train:1", *loads, "see")
    resumed = ("load", "train:1", "train:1", "see")
    run = play(Play("nvme", str(tmp_path / "saved"), str(tmp_path / "swap"), steps + resumed, faulty=True))
    plain_steps = ("train:1", "train:1", "train:1", "see")
    plain = play(Play("nvme", str(tmp_path / "plain"), str(tmp_path / "other"), plain_steps))
    assert run.exits == plain.exits == [0], run.output
    full, unreadable = run.failures[: len(PLACES)], run.failures[len(PLACES) :]
    assert len(unreadable) == len(PLACES), run.output
    for line in full:
        assert "StorageError" in line and "saved/next was not saved" in line and "No space left on device" in line, line
        assert "checkpoints before it are unchanged" in line
    for line in unreadable:
        assert "StorageError" in line and "Input/output error" in line and "saved/good/" in line, line
    assert "CLIENT [1]" in run.output, "of `latest`"
    assert run.seen("see") == sorted(plain.seen("see") * 2)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_file_in_the_way_is_said_by_all_ranks(compiled: None, tmp_path: Path, ranks: int) -> None:
    """DeepSpeed lets the first rank alone make the directory, and the others would wait for it."""
    occupied = tmp_path / "occupied"
    occupied.write_text("mine")
    refused = Play("nvme", str(occupied / "saved"), str(tmp_path / "swap"), ("train:1", "save", "train:1", "see"))
    plain = Play("nvme", str(tmp_path / "plain"), str(tmp_path / "other"), ("train:1", "train:1", "see"))
    run, without = play(refused, ranks), play(plain, ranks)
    assert run.exits == without.exits == [0] * ranks, run.output
    assert len(run.failures) == ranks
    for line in run.failures:
        assert "StorageError" in line and "occupied/saved/global_step1 was not saved: " in line
        assert "since a file is in the way" in line
    assert occupied.read_text() == "mine"
    assert run.seen("see") == without.seen("see")


@pytest.mark.parametrize(
    ("ranks", "number", "kills"), [(1, signal.SIGKILL, 50), (1, signal.SIGTERM, 10), (2, signal.SIGKILL, 10)]
)
def test_kills_while_it_saves(compiled: None, tmp_path: Path, ranks: int, number: int, kills: int) -> None:
    """Each training goes on from `latest`, saves after every step, and is killed in one of the saves."""
    draw = random.Random(11)
    saved = tmp_path / "saved"
    begin = Play("nvme", str(saved), str(tmp_path / "swap"), ("train:1", "save"))
    assert play(begin, ranks).exits == [0] * ranks
    killed = 0

    def partial_saves() -> set[tuple[str, int]]:
        with os.scandir(saved) as entries:
            return {(entry.name, entry.inode()) for entry in entries if entry.name.endswith(".partial")}

    for run_number in range(kills):
        goes_on = Play("nvme", str(saved), str(tmp_path / f"swap{run_number}"), ("load", *["train:1", "save"] * 6))

        def kill(processes: list[BaseProcess]) -> None:
            saves, left = draw.randrange(1, 6), partial_saves()  # the killed save before left one
            before: set[tuple[str, int]] = set()
            while len(before) < saves and any(process.exitcode is None for process in processes):
                before |= partial_saves() - left
            time.sleep(draw.uniform(0, 0.15))
            process = draw.choice(processes)
            assert process.pid is not None
            os.kill(process.pid, number)

        run = play(goes_on, ranks, kill)
        killed += any(status == -number for status in run.exits)
        assert "CLIENT" in run.output and "FAILED" not in run.output.split("CLIENT")[0], run.output
        tag = (saved / "latest").read_text()
        assert (saved / tag).is_dir()
        for older in saved.glob("global_step*"):
            if older.name != tag:
                shutil.rmtree(older)
    assert killed > kills // 2
    steps = int((saved / "latest").read_text().removeprefix("global_step"))
    last = play(Play("nvme", str(saved), str(tmp_path / "last"), ("load", "train:1", "see")), ranks)
    plain = play(
        Play("nvme", str(tmp_path / "plain"), str(tmp_path / "other"), ("train:1",) * (steps + 1) + ("see",)), ranks
    )
    assert last.seen("see") == plain.seen("see")
