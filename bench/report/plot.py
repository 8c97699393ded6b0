"""What `penstock bench --plot` draws, and the style of all our pictures.

The command carries this file inside and runs it by itself: `--check` only looks whether matplotlib is there; without it
the JSON report is read from standard input, in which each job has its `course` (intervals: end in ns; bytes read and
written, ns waited for reads; most bytes pinned, and of them in use), and an SVG goes to standard output.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

# Distinct on white, in grey print, and by most who see colours differently.
COLOURS = ["#1b6ca8", "#d1495b", "#2e933c", "#8a5cb8", "#b8860b", "#7a7a7a"]
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.prop_cycle": None,  # COLOURS
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "grid.alpha": 0.3,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "svg.fonttype": "none",  # texts stay texts
    "svg.hashsalt": "penstock",  # the same picture, the same bytes
    "text.parse_math": False,  # names of jobs may hold dollars
}
NAME_LENGTH_MAX = 32


def panels(labels: list[str], title: str, x_label: str) -> tuple[Any, Any]:
    """A figure with these panels below each other on one x axis; imports matplotlib."""
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    matplotlib.rcdefaults()
    matplotlib.rcParams.update({**STYLE, "axes.prop_cycle": cycler(color=COLOURS)})
    figure = Figure(figsize=(9.6, 0.5 + 1.9 * len(labels)))
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    axes = figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
    for one, label in zip(axes, labels, strict=True):
        one.set_ylabel(label)
    axes[-1].set_xlabel(x_label)
    return figure, axes


def svg(figure: Any, axes: Any) -> str:
    for one in axes if axes[0].lines else ():
        one.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    nothing: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata=nothing)
    return target.getvalue()


def is_simulated(report: dict[str, Any], job: dict[str, Any]) -> bool:
    engine = {**report["global options"], **job["job options"]}.get("ioengine", "")
    return engine.startswith("sim") and "clock=real" not in engine


def drawn(report: dict[str, Any]) -> str:
    jobs = [job for job in report["jobs"] if job["course"]]
    virtual = {is_simulated(report, job) for job in jobs}
    x_label = (
        "simulated time, s" if virtual == {True} else "time, s (partly simulated)" if True in virtual else "time, s"
    )
    labels = ["bandwidth, MB/s"]
    if any("swap" in job for job in jobs):
        labels += ["pinned memory, MiB", "waiting for\nreads, % of time"]
    figure, axes = panels(labels, report["command"] if jobs else "nothing moved that could be drawn", x_label)
    for job in jobs:
        name = job["jobname"]
        draw_job(axes, job, name if len(name) <= NAME_LENGTH_MAX else name[: NAME_LENGTH_MAX - 1] + "…")
    for one in axes:
        one.set_ylim(bottom=0)
    return svg(figure, axes)


def draw_job(axes: Any, job: dict[str, Any], name: str) -> None:
    ends = [at * 1e-9 for at, *_ in job["course"]]
    lengths = [end - begin for begin, end in zip([0.0, *ends], ends, strict=False)]
    if len(ends) > 1 and lengths[-1] < lengths[0]:  # a moment's rate would be a peak of chance
        ends, lengths = ends[:-1], lengths[:-1]
    _, read, written, stalled, pinned, live = zip(*job["course"], strict=True)

    def rate(values: tuple[int, ...], unit: float) -> list[float]:
        return [value / length * unit for value, length in zip(values, lengths, strict=False)]

    for what, values in (("read", read), ("write", written)):
        if any(values):
            axes[0].plot(ends, rate(values, 1e-6), label=f"{name}: {what}")
    if "swap" in job:
        (curve,) = axes[1].plot(ends, [value / (1 << 20) for value in live[: len(ends)]], label=f"{name}: in use")
        colour = curve.get_color()
        allowed = [value / (1 << 20) for value in pinned[: len(ends)]]
        axes[1].plot(ends, allowed, label=f"{name}: pinned", color=colour, linestyle="dashed")
        axes[2].plot(ends, rate(stalled, 1e-7), label=f"{name}: waiting", color=colour)


def main() -> int:
    try:
        import matplotlib
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    if "--check" in sys.argv:
        print(matplotlib.__version__)
        return 0
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(drawn(json.load(sys.stdin)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
