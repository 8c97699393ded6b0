"""Memory and reads of several runs over time, as one SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leg import Result


def draw(results: Sequence[Result], path: Path, title: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    colours = ["#1b6ca8", "#d1495b", "#7a7a7a", "#2e933c", "#8a5cb8"]
    figure, (memory, reads) = pyplot.subplots(2, 1, figsize=(9, 7), sharex=True, constrained_layout=True)
    figure.suptitle(title)
    for result, colour in zip(results, colours, strict=False):
        seconds = [sample.seconds for sample in result.samples]
        memory.plot(seconds, [sample.rss / 1e9 for sample in result.samples], color=colour, label=result.name)
        memory.plot(seconds, [sample.pinned / 1e9 for sample in result.samples], color=colour, linestyle=":")
        reads.plot(seconds, [sample.read / 1e9 for sample in result.samples], color=colour, label=result.name)
    memory.set_ylabel("memory of the process, GB\n(dotted: pinned)")
    reads.set_ylabel("read from drives, GB")
    reads.set_xlabel("seconds since the start of the process (imports and model building included)")
    for axes in (memory, reads):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="best", fontsize="small")
    figure.savefig(path)
    pyplot.close(figure)
