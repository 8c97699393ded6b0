"""An interrupt while torch lays out the file of a checkpoint is a KeyboardInterrupt, and not the end of the process."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

INTERRUPTED = """
import signal, sys, time
import torch
from penstock._core import SwapEngine
from penstock.deepspeed.checkpoint.archive import ArchivePlan

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
engine = SwapEngine("{}", "test")
plan = ArchivePlan({f"t{number}": torch.ones(3) for number in range(1000)})
begin = time.perf_counter()
plan.write(sys.argv[1], engine, lambda moved: None)
took, interrupted = time.perf_counter() - begin, 0

def write(after_s):
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        plan.write(sys.argv[1], engine, lambda moved: None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)

for number in range(1, 101):
    try:
        write(took * number / 100)
    except KeyboardInterrupt:
        interrupted += 1
assert interrupted > 20, interrupted
plan.write(sys.argv[1], engine, lambda moved: None)
engine.close()
"""


def test_interrupts_while_metadata_is_written(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "file.pt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert zipfile.ZipFile(tmp_path / "file.pt").testzip() is None


def test_what_laying_out_raises_is_raised() -> None:
    from penstock.deepspeed.checkpoint.archive_frame import ArchiveFrame

    def lay_out(writer: object) -> None:
        raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test"):
        ArchiveFrame().fill(lay_out, 4096)
