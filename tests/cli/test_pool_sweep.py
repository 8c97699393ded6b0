"""bench/pool_sweep.py: speed over pool size, on a small model."""

import json
import math
import subprocess
import sys

import pytest
from cli_support import DATA

SCRIPT = DATA.parent / "pool_sweep.py"


@pytest.fixture
def sweep(penstock, write, tmp_path):
    """Runs it on a model of 24 tensors of 1 to 3 MiB behind an embedding of 8."""
    tensors = [{"name": "embed", "dtype": "bf16", "shape": [4194304], "role": "param"}]
    tensors += [{"name": f"w{i}", "dtype": "bf16", "shape": [i % 3 + 1, 524288], "role": "param"} for i in range(24)]
    model = write("model.json", {"tensors": tensors})

    def run(*arguments):
        command = [sys.executable, SCRIPT, "--inventory", model, "--command", penstock.binary, "--chunk=1", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    return run


def test_a_sweep(sweep, tmp_path):
    done = sweep("--sizes=8,64", "--compute=0,1", "--report=report.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert len(report["jobs"]) == 2 * 2 * 2
    for job in report["jobs"]:
        options, swap = job["job options"], job["swap"]
        # No pass is faster than the drive, nor than computing; a chunk of the first is never hidden.
        assert job["read"]["bw_bytes"] <= 3.5 * (1 << 30) * 1.001
        compute = float(job["jobname"].partition("IO ")[2].partition(",")[0])
        drive_ms = swap["read_bytes"] / 3.5 / (1 << 30) * 1e3
        assert job["job_runtime"] >= drive_ms * compute * 0.99
        assert swap["pinned_bytes"] <= int(options["max_pinned"][:-1]) << 20
        assert swap["pageable_bytes"] == 0 or job["jobname"].startswith("whole")
    lines = done.stdout.splitlines()
    assert lines[0] == "| `max_pinned`, MiB | chunks: 0 | chunks: 1 | whole: 0 | whole: 1 |"
    assert lines[2].startswith("| 8 | ") and lines[3] == "| 64 | 100.0 | 100.0 | 100.0 | 100.0 |"
    assert all(0 < float(cell) <= 100.5 for cell in lines[2].split("|")[2:-1])


def test_chunks_are_the_same_bytes(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from pool_sweep import in_chunks

    model = json.loads((DATA / "inventories" / "llama-3.1-8b.json").read_text())
    pieces = in_chunks(model, 4 << 20)["tensors"]
    sizes = [2 * math.prod(piece["shape"]) for piece in pieces]
    assert sum(sizes) == sum(2 * math.prod(tensor["shape"]) for tensor in model["tensors"])
    assert max(sizes) == 4 << 20
    assert len({piece["name"] for piece in pieces}) == len(pieces)


def test_a_command_that_fails(sweep):
    done = sweep("--sizes=1,64", "--compute=0")
    assert done.returncode == 1
    assert "max_pinned" in done.stderr
