"""What durable stores cost: import and export against dd.

    .venv/bin/python bench/micro/store_cost.py CHECKPOINT.safetensors [--pairs 5] [--path DIRECTORY]

Each takes turns with `dd iflag=direct oflag=direct bs=4M conv=fsync` of the checkpoint, so that a drive that drifts
does so for both, and writes a new file or store, which is taken away again untimed. Times are of whole processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from turns import abba, quartiles

ROOT = Path(__file__).resolve().parents[2]


def timed(result: Path, *command: object) -> float:
    """Seconds of a process that must succeed. What it makes is removed, and the drive settles, untimed."""
    begun = time.monotonic()
    subprocess.run([str(word) for word in command], check=True)
    seconds = time.monotonic() - begun
    if result.is_dir():
        shutil.rmtree(result)
    else:
        result.unlink()
    os.sync()
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--path", default=os.environ.get("PENSTOCK_TMP"), help="a directory on the drive")
    parser.add_argument("--penstock", type=Path, default=ROOT / "build/release/penstock")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.path) as name:
        source, kept, result = (Path(name) / file for file in ("checkpoint.safetensors", "kept", "result"))
        shutil.copyfile(args.checkpoint, source)  # on the drive that is measured
        subprocess.run([args.penstock, "import", source, kept], check=True)
        copy = ("dd", f"if={source}", f"of={result}", "iflag=direct", "oflag=direct", "bs=4M", "conv=fsync")
        timed(result, *copy)
        export = result.with_suffix(".safetensors")
        for verb, made, command in (("import", result, (source, result)), ("export", export, (kept, export))):
            pairs = abba(
                lambda made=made, verb=verb, command=command: timed(made, args.penstock, verb, *command),  # type: ignore[misc]
                lambda: timed(result, *copy, "status=none"),
                args.pairs,
            )
            ratios = [ours / theirs for ours, theirs in pairs]
            low, high = quartiles(ratios)
            spread = f"quartiles {low:.3f} to {high:.3f}; {min(ratios):.3f} to {max(ratios):.3f}"
            print(f"{verb}: {statistics.median(ratios):.3f} of dd's time ({spread}) in {len(pairs)} pairs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
