"""How much pinned memory the forward stream of a model needs: speed over pool size, on a simulated drive.

    .venv/bin/python bench/pool_sweep.py [--inventory MODEL.json] [--report OUT.json]

Writes a job file for `penstock bench` and runs it in virtual time, so that the answer is the same on any machine and
under any load: a pass forward with the tensors fetched whole, as DeepSpeed needs them, and in chunks, as a consumer
could that works through a matrix piece by piece (the inventory cut into pieces; the same bytes, order and computing).
Prints a table for docs/BENCHMARKS.md: percent of the speed of the same consumer with the largest pool of all.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from markdown import table

ROOT = Path(__file__).resolve().parents[1]
READ_BYTES_PER_SECOND = 3.5 * (1 << 30)  # what `read=3.5g` means
GLOBAL = """[global]
workload=swap
phase=forward
ioengine=sim:read=3.5g,write=3g,latency=80us
ram=0
stonewall
"""
MIB = 1 << 20
ELEMENT_BYTES = {"bf16": 2, "f16": 2, "f32": 4}
CONSUMERS = ("chunks", "whole")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/pool_sweep.py --sizes 16,32,9216"
    )
    parser.add_argument("--inventory", type=Path, default=ROOT / "bench/data/inventories/llama-3.1-8b.json")
    parser.add_argument("--command", default=str(ROOT / "build/release/penstock"), help="penstock's own")
    parser.add_argument(
        "--sizes", type=numbers, default=(16, 24, 32, 48, 64, 512, 2560, 4608, 9216), help="MiB, the unlimited last"
    )
    parser.add_argument("--compute", type=numbers, default=(0, 0.5, 1, 2), help="over the time of the I/O: 0,0.5,1,2")
    parser.add_argument("--chunk", type=int, default=4, help="MiB of a piece (default 4)")
    parser.add_argument("--report", type=Path, help="keep penstock's own report here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        chunks, job = Path(directory) / "chunks.json", Path(directory) / "sweep.job"
        chunks.write_text(json.dumps(in_chunks(json.loads(options.inventory.read_text()), options.chunk * MIB)))
        job.write_text(job_file(options, chunks))
        command = [options.command, "bench", str(job), "--output-format=json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return done.returncode
    if options.report:
        options.report.write_text(done.stdout)
    speeds = {job["jobname"]: job["read"]["bw_bytes"] for job in json.loads(done.stdout)["jobs"]}
    print(speed_table(options, speeds))
    return 0


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(word) for word in text.split(","))


def name_of(consumer: str, compute: float, size: float) -> str:
    return f"{consumer}, compute / IO {compute:g}, {size:g} MiB"


def job_file(options: argparse.Namespace, chunks: Path) -> str:
    text = GLOBAL
    for consumer, compute, size in itertools.product(CONSUMERS, options.compute, options.sizes):
        text += f"[{name_of(consumer, compute, size)}]\nmax_pinned={size:g}m\n"
        text += f"inventory={chunks if consumer == 'chunks' else options.inventory.resolve()}\n"
        if compute:
            text += f"compute={round(compute * 1e15 / READ_BYTES_PER_SECOND)}us/GB\n"
        if consumer == "chunks":  # no more is read ahead than the pool holds: nothing is to be kept in other memory
            text += f"lookahead={max(options.chunk, int(size) - 8)}m\n"
    return text


def in_chunks(inventory: dict[str, Any], chunk_bytes: int) -> dict[str, Any]:
    """Every tensor as pieces of at most so many bytes, in its place."""
    pieces = []
    for tensor in inventory["tensors"]:
        elements, step = math.prod(tensor["shape"]), chunk_bytes // ELEMENT_BYTES[tensor["dtype"]]
        for begin in range(0, elements, step):
            name = tensor["name"] if elements <= step else f"{tensor['name']}[{begin // step}]"
            pieces.append({**tensor, "name": name, "shape": [min(step, elements - begin)]})
    return {**inventory, "tensors": pieces}


def speed_table(options: argparse.Namespace, speeds: dict[str, float]) -> str:
    columns = list(itertools.product(CONSUMERS, options.compute))
    best = [speeds[name_of(*column, max(options.sizes))] for column in columns]
    rows = [
        [f"{size:g}"]
        + [f"{100 * speeds[name_of(*column, size)] / most:.1f}" for column, most in zip(columns, best, strict=True)]
        for size in options.sizes
    ]
    return table(["`max_pinned`, MiB", *(f"{consumer}: {compute:g}" for consumer, compute in columns)], rows, "---:")


if __name__ == "__main__":
    sys.exit(main())
