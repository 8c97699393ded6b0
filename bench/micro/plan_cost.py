"""What `penstock plan` takes, its process's start included: each inventory, 1, 2 and 8 ranks, stages 2 and 3.

    .venv/bin/python bench/micro/plan_cost.py [--runs 9] [INVENTORY...]

Prints the median of each and the slowest run of all; exit status 1 if a median is above 50 ms, or a plan failed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RANKS = (1, 2, 8)
STAGES = (2, 3)
LIMIT_MS = 50.0


def milliseconds(command: list[str]) -> float:
    begun = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.monotonic() - begun) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("inventories", nargs="*", type=Path, metavar="INVENTORY")
    parser.add_argument("--runs", type=int, default=9, help="of each (default 9)")
    parser.add_argument("--penstock", type=Path, default=ROOT / "build/release/penstock")
    args = parser.parse_args()
    medians, slowest = [], 0.0
    print(f"{'inventory':24}" + "".join(f"{f'stage {s}, {r} ranks':>19}" for s in STAGES for r in RANKS))
    for inventory in args.inventories or sorted((ROOT / "bench/data/inventories").glob("*.json")):
        cells = []
        for stage in STAGES:
            for ranks in RANKS:
                command = [args.penstock, "plan", inventory, "--json", f"--stage={stage}", f"--world-size={ranks}"]
                times = [milliseconds([str(word) for word in command]) for _ in range(args.runs)]
                slowest = max(slowest, *times)
                medians.append(statistics.median(times))
                cells.append(f"{medians[-1]:16.1f} ms")
        print(f"{inventory.stem:24}{''.join(cells)}", flush=True)
    print(f"slowest of all {slowest:.1f} ms")
    return 0 if max(medians) <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
