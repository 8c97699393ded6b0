"""bench/pool_sweep.py: speed over pool size, on a small model."""

import json
import math
import subprocess
import sys
from xml.etree import ElementTree

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
    done = sweep("--sizes=8,64", "--compute=0,1", "--json=runs.json")
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert len(runs) == 2 * 2 * 2
    drive_ns = (8 + 48) * (1 << 20) / 3.5 / (1 << 30) * 1e9
    for run in runs:
        # No pass is faster than the drive, nor than computing; a chunk of the first is never hidden.
        assert run["elapsed_ns"] >= drive_ns * max(1, run["compute"]) * 0.999
        assert run["pinned_bytes"] <= run["max_pinned"]
        assert run["pageable_bytes"] == 0 or not run["chunks"]
    for line in (
        "compute / IO = 0\n",
        "compute / IO = 1\n",
        "| 8 | ",
        "| 64 | 100.0 % | ",
        "in chunks: ",
        "whole tensors: ",
    ):
        assert line in done.stdout, done.stdout
    # What is known is not run again, and the same comes out.
    again = sweep("--sizes=8,64", "--compute=0,1", "--json=runs.json", "--command=/nowhere")
    assert (again.returncode, again.stdout, again.stderr) == (0, done.stdout, "")


def test_its_picture(sweep, tmp_path):
    pytest.importorskip("matplotlib")
    done = sweep("--sizes=8,64", "--compute=0", "--picture=out.svg")
    assert done.returncode == 0, done.stderr
    shown = "".join(ElementTree.parse(tmp_path / "out.svg").getroot().itertext())
    for wanted in ("stock: 8.81 GiB", "97 %", "64 MiB", "8 GiB", "in chunks", "whole tensors", "simulated time"):
        assert wanted in shown


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
