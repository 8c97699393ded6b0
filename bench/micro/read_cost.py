"""CPU a GB of reads of 1 MiB: penstock's queue on io_uring against fio, in turns.

    .venv/bin/python bench/micro/read_cost.py [--pairs 10] [--path DIRECTORY] [--memory small]

Both read the same file by direct I/O into registered buffers (fio: ioengine=io_uring, fixedbufs=1), in the order
ABBA ABBA ..., so that a machine that drifts does so for both. CPU is user and system time: penstock's of its whole
process while it reads (getrusage), fio's of the job that reads (usr_cpu, sys_cpu). Prints each pair's ratio, their
median and quartiles; exit status 1 if something could not be measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_penstock(program: Path, file: Path, args: argparse.Namespace) -> float:
    """CPU in ms a GB."""
    done = subprocess.run(
        [program, file, str(args.bytes), str(args.depth), args.engine, args.memory],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    if not report["direct"] or (args.engine == "uring" and not report["registered"]):
        raise RuntimeError(f"not direct or not registered: {report}")
    return float(report["cpu_ms_per_gb"])


def run_fio(file: Path, args: argparse.Namespace) -> float:
    """CPU in ms a GB."""
    command = [
        "fio", "--name=read", f"--filename={file}", "--rw=read", "--bs=1m", "--direct=1",
        "--ioengine=io_uring", "--fixedbufs=1", f"--iodepth={args.depth}", f"--size={file.stat().st_size}",
        f"--io_size={args.bytes}", "--thread=1", "--gtod_reduce=1", "--output-format=json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    if job["error"] != 0:
        raise RuntimeError(f"fio failed with errno {job['error']}")
    cpu_ms = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"]
    return float(cpu_ms / (job["read"]["io_bytes"] / 1e9))


def write_file(path: Path, size: int) -> None:
    """Random bytes, past the page cache: what is cached would be copied instead of read."""
    subprocess.run(
        ["dd", "if=/dev/urandom", f"of={path}", "bs=1M", f"count={size >> 20}", "oflag=direct", "status=none"],
        check=True,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--path", default=os.environ.get("PENSTOCK_TMP"), help="a directory on the drive")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="what a leg reads")
    parser.add_argument("--file-bytes", type=int, default=1 << 30)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--engine", default="uring")
    parser.add_argument(
        "--memory", choices=["huge", "small"], default="huge", help="our buffers; small: pages of 4 KiB, as fio's"
    )
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bench/micro/read_cost")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if shutil.which("fio") is None or not args.program.exists():
        print(f"read_cost: needs fio and {args.program} (cmake --build --preset release)", file=sys.stderr)
        return 1
    pairs: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(dir=args.path) as directory:
        file = Path(directory) / "data"
        write_file(file, args.file_bytes)
        run_penstock(args.program, file, args)
        run_fio(file, args)
        for number in range(args.pairs):
            if number % 2 == 0:
                ours = run_penstock(args.program, file, args)
                theirs = run_fio(file, args)
            else:
                theirs = run_fio(file, args)
                ours = run_penstock(args.program, file, args)
            pairs.append((ours, theirs))
            print(f"pair {number + 1:2}: penstock {ours:6.2f} fio {theirs:6.2f} ms/GB, ratio {ours / theirs:.3f}")
    ratios = [ours / theirs for ours, theirs in pairs]
    low, median, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    ours_median = statistics.median(ours for ours, _ in pairs)
    theirs_median = statistics.median(theirs for _, theirs in pairs)
    print(f"CPU a GB: penstock {ours_median:.2f} ms, fio {theirs_median:.2f} ms, median of {len(pairs)} pairs")
    print(f"ratio {median:.3f} (quartiles {low:.3f} to {high:.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
