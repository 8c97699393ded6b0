"""How much pinned memory the forward stream of a model needs: speed over pool size, on a simulated drive.

    .venv/bin/python bench/pool_sweep.py [--inventory MODEL.json] [--picture OUT.svg] [--json OUT.json]

Runs `penstock bench --workload=swap --phase=forward` in virtual time, so that the answer is the same on any machine and
under any load, with the tensors fetched whole, as DeepSpeed needs them, and in chunks, as a consumer could that works
through a matrix piece by piece (the inventory cut into pieces; the same bytes, order and computing). Speeds are
relative to the same consumer with the largest pool of all, which holds several blocks of the model. Prints a table, the
smallest pool at 97 %, and draws a picture where matplotlib is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent / "report"))

READ_BYTES_PER_SECOND = 3.5 * (1 << 30)  # what `read=3.5g` means
DRIVE = "sim:read=3.5g,write=3g,latency=80us"
MIB = 1 << 20
SIZES_MIB = (16, 24, 32, 48, 64, 128, 256, 512, 1104, 2560, 4608, 9216)
COMPUTE = (0.0, 0.5, 1.0, 2.0)  # over the time of the I/O
WANTED = 0.97
ELEMENT_BYTES = {"bf16": 2, "f16": 2, "f32": 4}


@dataclass
class Run:
    """One pass forward."""

    chunks: bool
    compute: float
    max_pinned: int
    elapsed_ns: int
    stall_ns: int
    pinned_bytes: int
    pageable_bytes: int


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/pool_sweep.py --sizes 16,32,9216"
    )
    parser.add_argument("--inventory", type=Path, default=ROOT / "bench/data/inventories/llama-3.1-8b.json")
    parser.add_argument("--command", default=str(ROOT / "build/release/penstock"), help="penstock's own")
    parser.add_argument(
        "--sizes", type=numbers, default=SIZES_MIB, help="of the pool in MiB, the last one the unlimited"
    )
    parser.add_argument("--compute", type=numbers, default=COMPUTE, help="over the time of the I/O: 0,0.5,1,2")
    parser.add_argument("--chunk", type=int, default=4, help="MiB of a piece (default 4)")
    parser.add_argument(
        "--stock", type=float, default=8.81, help="GiB that stock DeepSpeed pins, marked in the picture"
    )
    parser.add_argument("--json", type=Path, help="keep the figures; what is there already is not run again")
    parser.add_argument("--picture", type=Path, help="draw them (SVG)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        chunks = Path(directory) / "chunks.json"
        chunks.write_text(json.dumps(in_chunks(json.loads(options.inventory.read_text()), options.chunk * MIB)))
        runs = list(sweep(options, chunks))
    for compute in options.compute:
        print(table(runs, compute), end="")
    print(answer(runs))
    if options.picture:
        options.picture.write_text(picture(runs, options.inventory.stem, options.stock), encoding="utf-8")
    return 0


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(word) for word in text.split(","))


def in_chunks(inventory: dict[str, Any], chunk_bytes: int) -> dict[str, Any]:
    """Every tensor as pieces of at most so many bytes, in its place."""
    pieces = []
    for tensor in inventory["tensors"]:
        elements = 1
        for length in tensor["shape"]:
            elements *= length
        step = chunk_bytes // ELEMENT_BYTES[tensor["dtype"]]
        for begin in range(0, elements, step):
            name = tensor["name"] if elements <= step else f"{tensor['name']}[{begin // step}]"
            pieces.append({**tensor, "name": name, "shape": [min(step, elements - begin)]})
    return {**inventory, "tensors": pieces}


def sweep(options: argparse.Namespace, chunks: Path) -> Iterator[Run]:
    known = {}
    if options.json and options.json.exists():
        known = {
            (run["chunks"], run["compute"], run["max_pinned"]): Run(**run)
            for run in json.loads(options.json.read_text())
        }
    for compute in options.compute:
        for in_pieces, inventory in ((True, chunks), (False, options.inventory)):
            for size in sorted(options.sizes, reverse=True):
                key = (in_pieces, compute, int(size * MIB))
                if key not in known:
                    # Of chunks no more is read ahead than the pool holds: nothing is to be kept in other memory.
                    lookahead = max(options.chunk, int(size) - 8) * MIB if in_pieces else None
                    known[key] = Run(*key, **measure(options.command, inventory, *key[1:], lookahead))
                    say(known[key])
                    if options.json:
                        options.json.write_text(json.dumps([asdict(run) for run in known.values()], indent=1) + "\n")
                yield known[key]


def measure(
    command: str, inventory: Path, compute: float, max_pinned: int, lookahead: int | None = None
) -> dict[str, Any]:
    arguments = [command, "bench", "--name=forward", "--workload=swap", "--phase=forward", f"--ioengine={DRIVE}"]
    arguments += [f"--inventory={inventory}", "--ram=0", f"--max_pinned={max_pinned}", "--output-format=json"]
    if lookahead is not None:
        arguments.append(f"--lookahead={lookahead}")
    if compute:
        arguments.append(f"--compute={round(compute * 1e15 / READ_BYTES_PER_SECOND)}us/GB")
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"pool_sweep: {' '.join(arguments)}: {done.stderr}")
    (job,) = json.loads(done.stdout)["jobs"]
    elapsed_ns = round(job["read"]["io_bytes"] / job["read"]["bw_bytes"] * 1e9)
    return {
        "elapsed_ns": elapsed_ns,
        **{key: job["swap"][key] for key in ("stall_ns", "pinned_bytes", "pageable_bytes")},
    }


def say(run: Run) -> None:
    what = "chunks" if run.chunks else "whole"
    print(
        f"  {what}, compute {run.compute:g}, {run.max_pinned / MIB:g} MiB: {run.elapsed_ns / 1e9:.4f} s",
        file=sys.stderr,
    )


def speeds(runs: Sequence[Run], chunks: bool, compute: float) -> list[tuple[Run, float]]:
    """Of one consumer, relative to its largest pool; ascending."""
    mine = sorted(
        (run for run in runs if (run.chunks, run.compute) == (chunks, compute)), key=lambda run: run.max_pinned
    )
    return [(run, mine[-1].elapsed_ns / run.elapsed_ns) for run in mine]


def table(runs: Sequence[Run], compute: float) -> str:
    text = f"\ncompute / IO = {compute:g}\n\n"
    text += "| max_pinned, MiB | in chunks | pinned, MiB | pageable beside | whole | pinned, MiB | pageable beside |\n"
    text += "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    for (piece, piece_speed), (whole, whole_speed) in zip(
        speeds(runs, True, compute), speeds(runs, False, compute), strict=True
    ):
        text += f"| {piece.max_pinned / MIB:g} | {100 * piece_speed:.1f} % | {piece.pinned_bytes / MIB:.0f} "
        text += f"| {piece.pageable_bytes / MIB:.0f} "
        text += f"| {100 * whole_speed:.1f} % | {whole.pinned_bytes / MIB:.0f} | {whole.pageable_bytes / MIB:.0f} |\n"
    return text


def answer(runs: Sequence[Run]) -> str:
    lines = []
    for chunks, what in ((True, "in chunks"), (False, "whole tensors")):
        computes = sorted({run.compute for run in runs})
        # The smallest from which on every larger one does too.
        least = 0
        for compute in computes:
            slow = [run.max_pinned for run, speed in speeds(runs, chunks, compute) if speed < WANTED]
            sizes = [run.max_pinned for run, _ in speeds(runs, chunks, compute)]
            least = max(least, min(size for size in sizes if not slow or size > max(slow)))
        ratios = ", ".join(f"{compute:g}" for compute in computes)
        lines.append(f"{what}: {least / MIB:g} MiB reach {100 * WANTED:g} % at compute / IO = {ratios}")
    return "\n" + "\n".join(lines)


def picture(runs: Sequence[Run], model: str, stock_gib: float) -> str:
    from plot import panels, svg

    kinds = ((True, "in chunks"), (False, "whole tensors"))
    title = f"A pass forward over {model}, simulated drive (3.5 GiB/s, 80 µs), simulated time"
    labels = [f"{what}:\nspeed, % of unlimited" for _, what in kinds]
    figure, axes = panels(labels, title, "pinned memory allowed (max_pinned)")
    for one, (chunks, _) in zip(axes, kinds, strict=True):
        for compute in sorted({run.compute for run in runs}):
            points = speeds(runs, chunks, compute)
            sizes, percents = [run.max_pinned / MIB for run, _ in points], [100 * speed for _, speed in points]
            one.plot(sizes, percents, marker="o", markersize=3.5, label=f"compute / IO = {compute:g}")
        one.axhline(100 * WANTED, linestyle="dashed", color="#555555", linewidth=0.8, label=f"{100 * WANTED:g} %")
        one.axvline(stock_gib * 1024, linestyle="dotted", color="#555555", label=f"stock: {stock_gib} GiB")
        one.set_ylim(50, 103)
    ticks = [1 << power for power in range(4, 14)]
    axes[-1].set_xscale("log", base=2)
    names = [f"{size} MiB" if size < 1024 else f"{size // 1024} GiB" for size in ticks]
    axes[-1].set_xticks(ticks, labels=names)
    axes[-1].minorticks_off()
    return svg(figure, axes)


if __name__ == "__main__":
    sys.exit(main())
