"""What `penstock bench --plot` draws, and the style of all our pictures.

The command carries this file inside and runs it by itself: `--check` only looks whether matplotlib is there; without it
the JSON report is read from standard input and an SVG goes to standard output. Each job has its `courses` in it, one a
thread: samples of the time in ns, bytes read and written and ns waited for reads until then, bytes pinned and in use.
"""

from __future__ import annotations

import io
import itertools
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
LABELS = ["bandwidth, MB/s", "pinned memory, MiB", "waiting for\nreads, % of time"]


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
    """Jobs that ran together share their panels."""
    jobs = [job for job in report["jobs"] if any(job["courses"])]
    virtual = {is_simulated(report, job) for job in jobs}
    x_label = (
        "simulated time, s" if virtual == {True} else "time, s (partly simulated)" if True in virtual else "time, s"
    )
    groups = [[job for job in jobs if job["groupid"] == number] for number in sorted({job["groupid"] for job in jobs})]
    sizes = [3 if any("swap" in job for job in group) else 1 for group in groups]
    labels = [label for size in sizes for label in LABELS[:size]]
    title = shortened(", ".join(job["jobname"] for job in jobs), 100) or "nothing moved that could be drawn"
    figure, axes = panels(labels or LABELS[:1], title, x_label)
    begin = 0
    for group, size in zip(groups, sizes, strict=True):
        for job in group:
            for course in job["courses"]:
                draw_course(axes[begin : begin + size], course, shortened(job["jobname"], 32), "swap" in job)
        begin += size
    for one in axes:
        one.set_ylim(bottom=0)
    return svg(figure, axes)


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def draw_course(axes: Any, course: list[list[int]], name: str, swaps: bool) -> None:
    ends, *totals, pinned, live = zip([0] * 6, *course, strict=True)
    seconds = [at * 1e-9 for at in ends]
    spans = list(itertools.pairwise(seconds))
    if len(spans) > 1 and spans[-1][1] - spans[-1][0] < spans[0][1]:  # a moment's rate would be a peak of chance
        spans = spans[:-1]
    x = [end for _, end in spans]

    def rate(values: Any, unit: float) -> list[float]:
        return [
            (after - before) / max(end - begin, 1e-9) * unit
            for (before, after), (begin, end) in zip(itertools.pairwise(values), spans, strict=False)
        ]

    for what, values in zip(("read", "write"), totals, strict=False):
        if values[-1]:
            axes[0].plot(x, rate(values, 1e-6), label=f"{name}: {what}")
    if swaps:
        (curve,) = axes[1].plot(seconds[1:], [value / (1 << 20) for value in live[1:]], label=f"{name}: in use")
        style = {"color": curve.get_color(), "linestyle": "dashed"}
        axes[1].plot(seconds[1:], [value / (1 << 20) for value in pinned[1:]], label=f"{name}: pinned", **style)
        axes[2].plot(x, rate(totals[2], 1e-7), label=f"{name}: waiting", color=curve.get_color())


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
