"""The job files of bench/jobs: that they are understood, and that docs/BENCHMARKS.md has each."""

import os

import pytest
from cli_support import ROOT

JOBS = sorted((ROOT / "bench" / "jobs").glob("*.job"))


def test_there_are_some():
    assert len(JOBS) >= 4


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_it_is_understood(penstock, path, tmp_path):
    done = penstock("bench", path, f"--directory={tmp_path}", "--parse-only", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_it_is_explained(path):
    assert path.read_text(encoding="utf-8").startswith("; ")
    documented = (ROOT / "docs" / "BENCHMARKS.md").read_text(encoding="utf-8")
    assert f"penstock bench bench/jobs/{path.name}" in documented


@pytest.mark.parametrize("direction", ["read", "write", "rw"])
def test_a_fifo_is_no_file_of_a_job(penstock, tmp_path, direction):
    os.mkfifo(tmp_path / "fifo")
    done = penstock("bench", "--name=x", f"--filename={tmp_path / 'fifo'}", f"--rw={direction}", "--bs=4k", "--size=1m")
    assert done.returncode == 1
    assert "is a FIFO or a socket" in done.stderr
