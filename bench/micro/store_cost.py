"""What durable stores cost: import and export against dd, and integrity levels in CPU a GB.

    .venv/bin/python bench/micro/store_cost.py CHECKPOINT.safetensors [--pairs 5] [--path DIRECTORY]

Import and export each take turns with `dd iflag=direct oflag=direct bs=4M conv=fsync` of the checkpoint, in the order
ABBA ABBA ..., so that a drive that drifts does so for both; each writes a new file or store, which is taken away again
untimed. Times are of whole processes. Then integrity_cost at each level, in turns too. Prints each pair's ratio, their
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
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("off", "sampled", "full")


def timed(*command: object) -> float:
    """Seconds of a process that must succeed."""
    begun = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()}")
    return seconds


def take_away(path: Path) -> None:
    """And lets the drive settle: freeing space is not measured."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    os.sync()


def in_turns(name: str, ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> None:
    ratios = []
    for number in range(pairs):
        if number % 2 == 0:
            a = ours()
            b = theirs()
        else:
            b = theirs()
            a = ours()
        ratios.append(a / b)
        print(f"{name} {number + 1:2}: penstock {a:6.2f} s, dd {b:6.2f} s, ratio {a / b:.3f}", flush=True)
    low, median, high = statistics.quantiles(ratios, n=4) if pairs > 1 else ratios * 3
    print(f"{name}: median ratio {median:.3f} (quartiles {low:.3f} to {high:.3f}) of {pairs} pairs")


def compare(source: Path, directory: Path, args: argparse.Namespace) -> None:
    store = directory / "store"
    target = directory / "out.safetensors"
    copy = directory / "copy"

    def run_dd() -> float:
        seconds = timed(
            "dd", f"if={source}", f"of={copy}", "iflag=direct", "oflag=direct", "bs=4M", "conv=fsync", "status=none"
        )
        take_away(copy)
        return seconds

    def run_import() -> float:
        seconds = timed(args.penstock, "import", source, store)
        take_away(store)
        return seconds

    def run_export() -> float:
        seconds = timed(args.penstock, "export", kept, target)
        take_away(target)
        return seconds

    run_dd()
    in_turns("import", run_import, run_dd, args.pairs)
    kept = directory / "kept"
    timed(args.penstock, "import", source, kept)
    in_turns("export", run_export, run_dd, args.pairs)
    take_away(kept)


def integrity(directory: Path, args: argparse.Namespace) -> None:
    found: dict[str, list[dict[str, float]]] = {level: [] for level in LEVELS}
    for number in range(args.pairs):
        for level in LEVELS if number % 2 == 0 else reversed(LEVELS):
            done = subprocess.run(
                [args.integrity_cost, directory / "levels", level], capture_output=True, text=True, check=True
            )
            found[level].append(json.loads(done.stdout))
    for level, reports in found.items():
        read = statistics.median(report["read_cpu_s_per_gb"] for report in reports)
        write = statistics.median(report["write_cpu_s_per_gb"] for report in reports)
        print(f"integrity {level:8}: CPU s a GB, read {read:.4f}, write {write:.4f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--path", default=os.environ.get("PENSTOCK_TMP"), help="a directory on the drive")
    parser.add_argument("--penstock", type=Path, default=ROOT / "build/release/penstock")
    parser.add_argument("--integrity-cost", type=Path, default=ROOT / "build/release/bench/micro/integrity_cost")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    for program in (args.penstock, args.integrity_cost):
        if not program.exists():
            print(f"store_cost: needs {program} (cmake --build --preset release)", file=sys.stderr)
            return 1
    with tempfile.TemporaryDirectory(dir=args.path) as name:
        directory = Path(name)
        source = directory / "checkpoint.safetensors"
        shutil.copyfile(args.checkpoint, source)  # on the drive that is measured
        os.sync()
        compare(source, directory, args)
        source.unlink()
        integrity(directory, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
